# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of a namespace by the objects that its API server has, in the form in which jobs on hosts are reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    PREPARES,
    READS,
    ROLE_LABEL,
    SINCE,
    START,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.observed_pods import (
    has_read,
    is_running,
    message_of,
    metadata_of,
    number_of,
    pod_row,
    terminated,
    why,
)

Object = Mapping[str, Any]

MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "amx.cluster"
# Annotations of a job's ConfigMap, once its training object was deleted.
STATE, REASON, ENDED = "amx.cluster/state", "amx.cluster/reason", "amx.cluster/ended"
# On a job's ConfigMap: when its start began, until what trains is created; and for how many seconds that counts.
STARTING, STARTING_SECONDS = "amx.cluster/starting", 600
# What trains, by its API; in the order in which all objects of a job are removed.
TRAINING = {
    "PyTorchJob": "kubeflow.org/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "Job": "batch/v1",
}
REMOVED = {
    **TRAINING,
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "Pod": "v1",
    "Service": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
}
SUCCEEDED, FAILED = ("Complete", "Succeeded"), ("Failed",)
STATES = ("running", "succeeded", "failed", "stopped", "lost")


@dataclass(frozen=True)
class Found:
    """A job of which the cluster has objects. name: of these. config: its ConfigMap. pods: all that train, the newest
    of each number, by number."""

    name: str
    namespace: str
    config: Object = field(default_factory=dict)
    training: Object = field(default_factory=dict)
    prepare: Object = field(default_factory=dict)
    prepares: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()

    @property
    def derived(self) -> dict[str, Any]:
        """What was derived for its pods; empty where its ConfigMap was removed."""
        return _content(self.config, "kubernetes.json")

    @property
    def run(self) -> dict[str, Any]:
        """Its job.json; empty where its ConfigMap was removed."""
        return _content(self.config, "job.json")

    @property
    def job(self) -> str:
        """The name in its job file."""
        return str(self.run.get("job", {}).get("name", self.name))

    @property
    def kind(self) -> str:
        """The kind of what trains."""
        return str(self.training.get("kind") or self.derived.get("kind") or "Job")

    def said(self, annotation: str) -> str:
        """Return an annotation of its objects, or what its ConfigMap has in that place."""
        for one in (self.training, self.config):
            text = metadata_of(one).get("annotations", {}).get(annotation, "")
            if text:
                return str(text)
        own = self.run.get("settings", {})
        return str(own.get(annotation.rpartition("/")[2], "") or "")

    @property
    def start(self) -> str:
        """By what its directory on the volume is told from those of other starts; empty where it is not known."""
        return self.said(START)

    @property
    def directory(self) -> str:
        """Its directory on the volume; empty where it is not known."""
        return f"jobs/{self.name}-{self.start}" if self.start else ""

    @property
    def first_running(self) -> Object | None:
        """Its first pod, which has the supervisor; None while that does not run."""
        return next((pod for pod in self.pods if number_of(pod) == 0 and is_running(pod)), None)

    def pod(self, number: int) -> Object:
        """Return a pod by its number. Raises ValueError where there is none."""
        for one in self.pods:
            if number_of(one) == number:
                return one
        there = ", ".join(str(number_of(one)) for one in self.pods)
        raise ValueError(f"job {self.name} has no pod {number}: " + (f"it has {there}" if there else "it has none"))


def _content(config: Object, name: str) -> dict[str, Any]:
    try:
        found = json.loads((config.get("data") or {}).get(name, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ours(one: Object) -> bool:
    """Tell whether an object is one of a job's and was made by the collection."""
    labels = metadata_of(one)["labels"]
    return bool(labels.get(JOB_LABEL)) and labels.get(MANAGED_BY) == MANAGER


def selector(name: str = "") -> str:
    """Return the labels by which the objects of a job are found, or those of all jobs."""
    return f"{JOB_LABEL}{f'={name}' if name else ''},{MANAGED_BY}={MANAGER}"


def group(
    configs: Iterable[Object], trainings: Iterable[Object], pods: Iterable[Object], namespace: str
) -> list[Found]:
    """Return the jobs of a namespace, by name. trainings: also Jobs that prepare. Objects of others are left out."""
    parts: dict[str, dict[str, Any]] = {}

    def of(one: Object) -> dict[str, Any]:
        name = metadata_of(one)["labels"][JOB_LABEL]
        return parts.setdefault(name, {"pods": [], "prepares": []})

    for one in filter(ours, configs):
        of(one)["config"] = one
    for one in filter(ours, trainings):
        is_prepare = metadata_of(one)["name"] == f"{metadata_of(one)['labels'][JOB_LABEL]}-prepare"
        of(one)["prepare" if is_prepare else "training"] = one
    newest = sorted(filter(ours, pods), key=lambda one: metadata_of(one).get("creationTimestamp") or "", reverse=True)
    for one in newest:
        role = metadata_of(one)["labels"].get(ROLE_LABEL, "")
        if role == PREPARES:
            of(one)["prepares"].append(one)
        elif role != READS and number_of(one) not in map(number_of, of(one)["pods"]):
            of(one)["pods"].append(one)
    found = []
    for name, has in sorted(parts.items()):
        numbered = tuple(sorted(has.pop("pods"), key=number_of))
        found.append(Found(name, namespace, pods=numbered, prepares=tuple(has.pop("prepares")), **has))
    return found


# The state of a job


def time_of(text: str) -> str:
    """Return a time of the API as the files of a job have it: with its time zone, which is UTC."""
    text = text.removesuffix("Z")
    return text + "+00:00" if text and not re.search(r"[+-]\d\d:\d\d$", text) else text


def conclusion(training: Object) -> tuple[str, str]:
    """Return how a training object ended, (state, message); two empty strings while it has not."""
    for one in (training.get("status") or {}).get("conditions") or []:
        if one.get("status") == "True" and one.get("type") in (*SUCCEEDED, *FAILED):
            message = str(one.get("message") or one.get("reason") or "")
            return ("succeeded", "") if one["type"] in SUCCEEDED else ("failed", message)
    return "", ""


def status(found: Found, live: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the status of a job in the form of status.json. live: what pod.py status has printed in its first pod.

    It is what its own supervisor says, as long as that can be asked; then what the pods have left, the training object
    says, or was noted when it was stopped. "pending": no pod of it has run yet.
    """
    derived = found.derived
    pods = int(derived.get("pods", len(found.pods)))
    base: dict[str, Any] = {
        "job": found.job,
        "state": "running",
        "reason": "",
        "started": time_of(found.said(SINCE) or _created(found.training) or _created(found.config)),
        "hosts": pods,
        "ranks": pods * int(derived.get("ranks", 1)),
        "notes": [],
    }
    own = (live or {}).get("status")
    if own:
        return {**base, **own}
    state, reason = _state(found)
    base.update(state=state, reason=reason)
    ended = _ended(found)
    if state in STATES[1:] and ended:
        base["ended"] = ended
    return base


def _created(one: Object) -> str:
    return str(metadata_of(one).get("creationTimestamp") or "")


def _ended(found: Found) -> str:
    times = [str(terminated(pod).get("finishedAt") or "") for pod in found.pods]
    last = (found.training.get("status") or {}).get("completionTime") or max(times, default="")
    return time_of(str(last or found.said(ENDED)))


def _state(found: Found) -> tuple[str, str]:
    """Return (state, reason) without what its supervisor says."""
    messages = [message_of(pod) for pod in found.pods]
    first = next((said for pod, said in zip(found.pods, messages) if number_of(pod) == 0 and said), {})
    concluded, message = conclusion(found.training)
    if concluded:
        if first.get("state") in STATES[1:]:
            return str(first["state"]), str(first.get("reason") or message)
        cause = causes.of_failure([*found.pods, *found.prepares], found.training).text if concluded == "failed" else ""
        return concluded, cause or message
    if not found.training:
        noted = found.said(STATE)
        if noted:
            return noted, found.said(REASON)
        if is_starting(found.config):
            state, reason = _preparing(found)
            return state, reason or "it is being started"
        if first:
            return str(first["state"]), str(first.get("reason", ""))
        if found.prepare:
            return _preparing(found)
        return "lost", f"its {found.kind} is no longer in namespace {found.namespace}"
    if any(map(is_running, found.pods)):
        return "running", ""
    if first.get("state") in STATES[1:] and all(map(terminated, found.pods)):
        return str(first["state"]), str(first.get("reason", ""))
    if any(map(terminated, found.pods)):
        return "running", _first_reason(found)
    return "pending", _first_reason(found) or _preparing(found)[1] or "its pods have not been started yet"


def _preparing(found: Found) -> tuple[str, str]:
    """Return state and reason of a job whose models and data are put on the volume first."""
    concluded, message = conclusion(found.prepare)
    reason = next((f"pod {metadata_of(pod)['name']}: {why(pod)}" for pod in found.prepares if why(pod)), "")
    if concluded == "failed":
        return "failed", f"its data could not be prepared: {reason or message}"
    if found.prepare and not concluded:
        return "pending", reason or "its models and data are put on the volume"
    return "pending", ""


def _first_reason(found: Found) -> str:
    """Return why the first pod that does not run does not, in the words of train.yml."""
    causes_of_waiting = causes.of_waiting(found.pods, {})
    if causes_of_waiting:
        return causes_of_waiting[0].text
    ended_pods = [pod for pod in found.pods if not is_running(pod) and (terminated(pod) or why(pod))]
    return causes.of_failure(ended_pods).text if ended_pods else ""


def is_starting(config: Object, now: datetime | None = None) -> bool:
    """Tell whether a job of this ConfigMap is being started; a start that was interrupted counts for 10 minutes."""
    notes = metadata_of(config)["annotations"]
    if STARTING not in notes or STATE in notes:
        return False
    try:
        began = datetime.fromisoformat(time_of(str(notes[STARTING])))
    except ValueError:
        return False
    return ((now or datetime.now(timezone.utc)) - began).total_seconds() < STARTING_SECONDS


def has_ended(state: str) -> bool:
    """Tell whether a job of this state has ended."""
    return state in STATES[1:]


def entry(found: Found, live: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a job as jobs_info returns those of hosts, and `kubernetes`: what only jobs in pods have.

    path: its directory on the volume. ranks: each with its pod as `host`.
    """
    said = dict(live or {})
    return {
        "name": found.name,
        "path": str(said.get("directory") or found.directory),
        "status": status(found, live),
        "progress": said.get("progress") or {},
        "ranks": ranks_of(said.get("ranks")),
        "kubernetes": {
            "namespace": found.namespace,
            "kind": found.kind,
            "name": found.name,
            "start": found.start,
            "user": found.said(BY_USER),
            "pods": [pod_row(pod) for pod in found.pods],
        },
    }


def ranks_of(told: Any) -> list[dict[str, Any]]:
    """Return the ranks of ranks.json, {rank: what it told} or a list of these, as a list by rank."""
    if isinstance(told, Mapping):
        told = [{"rank": int(rank), **one} for rank, one in told.items()]
    return sorted((dict(one) for one in told or []), key=lambda one: int(one.get("rank", 0)))


def elapsed(found_status: Mapping[str, Any], now: datetime) -> float | None:
    """Return for how many seconds a job has run, or did; None where its times are not known."""
    try:
        began = datetime.fromisoformat(time_of(str(found_status["started"])))
        ended = found_status.get("ended")
        until = datetime.fromisoformat(time_of(str(ended))) if ended else now
        return max(0.0, (until - began).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None


# What is removed


def removable(objects: Iterable[Object], name: str) -> list[dict[str, str]]:
    """Return which objects of a job can be removed, in the order in which they are: {api_version, kind, name}.

    Objects without the collection's own labels, those of other jobs and claims are never among them, nor is what
    another object owns: it is removed with that. A reader that runs is of somebody who fetches results now.
    """
    places = list(REMOVED)
    found = [
        one
        for one in objects
        if ours(one)
        and metadata_of(one)["labels"][JOB_LABEL] == name
        and one.get("kind") in REMOVED
        and not metadata_of(one).get("ownerReferences")
        and (metadata_of(one)["labels"].get(ROLE_LABEL) != READS or has_read(one))
    ]
    found.sort(key=lambda one: (places.index(str(one["kind"])), metadata_of(one)["name"]))
    return [
        {"api_version": REMOVED[str(one["kind"])], "kind": str(one["kind"]), "name": metadata_of(one)["name"]}
        for one in found
    ]


def running_objects(found: Found) -> list[dict[str, str]]:
    """Return what runs pods of a job, which stop.yml deletes: the training object and the Job that prepares."""
    return removable([one for one in (found.training, found.prepare) if one], found.name)


def is_missing(name: str, namespace: str, known: Sequence[Found]) -> str:
    """Return the message for a job that neither hosts nor Kubernetes have."""
    there = ", ".join(f"{found.name} ({status(found)['state']})" for found in known)
    return (
        f"no job {name} was started, neither on a host of the inventory nor in namespace {namespace}. "
        + (f"Jobs in the namespace: {there}. " if there else "The namespace has no job. ")
        + "playbooks/status.yml lists all jobs; with -e volume=true also those of which only the volume has files"
    )
