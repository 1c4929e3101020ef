# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of which a cluster has objects: its state, what its pods do, and what of it can be removed.

Gathered from the API server, with what its supervisor reports in its first pod, and reported in the form in which jobs
on hosts are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes, kinds, pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    MANAGED_BY,
    MANAGER,
    PREPARES,
    READS,
    SINCE,
    START,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import PROGRAM

Object = Mapping[str, Any]

# Annotations of a job's ConfigMap, once its training object was deleted.
STATE, REASON, ENDED = "amx.cluster/state", "amx.cluster/reason", "amx.cluster/ended"
# On a job's ConfigMap: when its start began, until what trains is created; and for how many seconds that counts.
STARTING, STARTING_SECONDS = "amx.cluster/starting", 600
STATES = ("running", "succeeded", "failed", "stopped", "lost")


@dataclass(frozen=True)
class JobInPods:
    """A job of which the cluster has objects. name: of these.

    config: its ConfigMap. training: what makes its pods. prepare: the Job that prepares its data. all_pods: those of
    its pods that are not readers. reported: what pod status printed in its first pod; empty where that does not
    run, or cannot be asked: unanswered has why.
    """

    name: str
    namespace: str
    config: Object = field(default_factory=dict)
    training: Object = field(default_factory=dict)
    prepare: Object = field(default_factory=dict)
    all_pods: tuple[Object, ...] = ()
    reported: Mapping[str, Any] = field(default_factory=dict)
    unanswered: str = ""

    @property
    def pods(self) -> tuple[Object, ...]:
        """Those that train, the newest of each number, by number."""
        return tuple(pods.training_pods(self.all_pods).values())

    @property
    def prepares(self) -> tuple[Object, ...]:
        """Those that prepare its data."""
        return tuple(pod for pod in self.all_pods if pods.role_of(pod) == PREPARES)

    @property
    def own(self) -> dict[str, Any]:
        """Its status.json, as its supervisor has last written it; empty where it has not reported."""
        return dict(self.reported.get("status") or {})

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
            text = pods.metadata_of(one).get("annotations", {}).get(annotation, "")
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
        return next((pod for pod in self.pods if pods.number_of(pod) == 0 and pods.is_running(pod)), None)

    @property
    def maker(self) -> Object:
        """What makes its pods now: its training object, or the Job that prepares its data; empty for neither."""
        return self.training or self.prepare

    def pod(self, number: int) -> Object:
        """Return a pod by its number. Raises ValueError where there is none."""
        for one in self.pods:
            if pods.number_of(one) == number:
                return one
        there = ", ".join(str(pods.number_of(one)) for one in self.pods)
        raise ValueError(f"job {self.name} has no pod {number}: " + (f"it has {there}" if there else "it has none"))


def _content(config: Object, name: str) -> dict[str, Any]:
    try:
        found = json.loads((config.get("data") or {}).get(name, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ours(one: Object) -> bool:
    """Tell whether an object is one of a job's and was made by the collection."""
    labels = pods.metadata_of(one)["labels"]
    return bool(labels.get(JOB_LABEL)) and labels.get(MANAGED_BY) == MANAGER


def selector(name: str = "") -> str:
    """Return the labels by which the objects of a job are found, or those of all jobs."""
    return f"{JOB_LABEL}{f'={name}' if name else ''},{MANAGED_BY}={MANAGER}"


def group(objects: Iterable[Object], namespace: str) -> list[JobInPods]:
    """Return the jobs of a namespace, by name, from their objects. Those of others are left out."""
    parts: dict[str, dict[str, Any]] = {}
    for one in filter(ours, objects):
        name, kind = pods.metadata_of(one)["labels"][JOB_LABEL], one["kind"]
        of = parts.setdefault(name, {"all_pods": []})
        if kind == "Pod":
            if pods.role_of(one) != READS:
                of["all_pods"].append(one)
        elif kind == "ConfigMap":
            of["config"] = one
        elif kinds.prepares(one, name):
            of["prepare"] = one
        elif kind in kinds.TRAINING:
            of["training"] = one
    parts = {name: of for name, of in parts.items() if len(of) > 1 or of["all_pods"]}
    return [JobInPods(name, namespace, all_pods=tuple(of.pop("all_pods")), **of) for name, of in sorted(parts.items())]


def gather(api: Api, name: str = "", kind: str = "") -> list[JobInPods]:
    """Return the jobs of the namespace, or the one of this name. kind: of what trains, where it is known.

    Raises ApiError.
    """
    trainings = {key: one.api_version for key, one in kinds.TRAINING.items() if not kind or key in (kind, "Job")}
    found = [
        one
        for key, version in {"ConfigMap": "v1", "Pod": "v1", **trainings}.items()
        for one in _list(api, version, key, name)
    ]
    return group(found, api.namespace)


def everything(api: Api, name: str) -> list[Object]:
    """Return all objects of a job, those of its pods' own among them. Raises ApiError."""
    return [one for kind, version in kinds.OF_JOBS.items() for one in _list(api, version, kind, name)]


def _list(api: Api, version: str, kind: str, name: str) -> list[Object]:
    """Return the objects of a kind; none of a kind that this user may not list, for the job may be of another."""
    try:
        return list(api.list(version, kind, selector(name)))
    except ApiError as error:
        if error.status != 403 or kind in ("ConfigMap", "Job"):
            raise
        return []


# What its supervisor reports


def ask(api: Api, pod: Object, words: Sequence[str], timeout: float = 30) -> Any:
    """Return the JSON that the command pod prints for these words in a pod. Raises ValueError."""
    name = pods.metadata_of(pod)["name"]
    code, out, errors = api.exec(name, pods.container_of(pod), [*PROGRAM, *words], timeout)
    if code:
        said = (errors.strip() or out.strip() or f"exit code {code}").splitlines()[-1]
        raise ValueError(f"pod {' '.join(words)} in pod {name}: {said.removeprefix('amx.cluster: ')}")
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise ValueError(
            f"pod {' '.join(words)} in pod {name} printed no JSON: its image is of another version of the "
            "collection than this one; build it again with playbooks/image.yml"
        ) from None


def with_report(api: Api, job: JobInPods) -> JobInPods:
    """Return a job with what its supervisor reports, where that can be asked and means this run."""
    first = job.first_running
    if first is None:
        return job
    try:
        reported = dict(ask(api, first, ["status", *([job.start] if job.start else [])]))
    except ValueError as error:  # a pod that ends just now cannot be asked: its state tells
        return replace(job, unanswered=str(error))
    return replace(job, reported=reported) if is_of(reported, job, pods.began(first)) else job


def is_of(reported: Mapping[str, Any], job: JobInPods, began_at: str) -> bool:
    """Tell whether a status is of this run, not of the previous one in the same directory.

    began_at: when the first pod did, by which runs are told apart that have no other time.
    """
    status, since = reported.get("status"), job.said(SINCE)
    if not status:
        return False
    if since and "since" in status:
        return bool(status["since"] == since)
    if status.get("state") == "running":
        return True
    try:
        return _seconds(str(status["started"])) >= _seconds(began_at) - 2
    except (KeyError, ValueError):
        return True


# The state of a job


def _seconds(text: str) -> float:
    return datetime.fromisoformat(time_of(text)).timestamp()


def time_of(text: str) -> str:
    """Return a time of the API as the files of a job have it: with its time zone, which is UTC."""
    text = text.removesuffix("Z")
    return text + "+00:00" if text and not re.search(r"[+-]\d\d:\d\d$", text) else text


def status(found: JobInPods) -> dict[str, Any]:
    """Return the status of a job in the form of status.json.

    It is what its own supervisor reports, as long as that can be asked; then what the pods have left, the training
    object says, or was noted when it was stopped. "pending": no pod of it has run yet.
    """
    derived = found.derived
    count = int(derived.get("pods", len(found.pods)))
    base: dict[str, Any] = {
        "job": found.job,
        "state": "running",
        "reason": "",
        "started": time_of(found.said(SINCE) or _created(found.training) or _created(found.config)),
        "hosts": count,
        "ranks": count * int(derived.get("ranks", 1)),
        "notes": [],
    }
    if found.own:
        return {**base, **found.own}
    state, reason = _state(found)
    base.update(state=state, reason=reason)
    ended = _ended(found)
    if state in STATES[1:] and ended:
        base["ended"] = ended
    return base


def _created(one: Object) -> str:
    return str(pods.metadata_of(one).get("creationTimestamp") or "")


def _ended(found: JobInPods) -> str:
    times = [str(pods.terminated(pod).get("finishedAt") or "") for pod in found.pods]
    last = (found.training.get("status") or {}).get("completionTime") or max(times, default="")
    return time_of(str(last or found.said(ENDED)))


def _concluded(one: Object) -> tuple[str, str]:
    """Return how an object has ended, and what it says about a failure."""
    state, reason, message = kinds.conclusion(one)
    return state, (message or reason) if state == "failed" else ""


def _state(found: JobInPods) -> tuple[str, str]:
    """Return (state, reason) without what its supervisor says."""
    messages = [pods.outcome(pod) for pod in found.pods]
    first = next((said for pod, said in zip(found.pods, messages) if pods.number_of(pod) == 0 and said), {})
    concluded, message = _concluded(found.training)
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
    if any(map(pods.is_running, found.pods)):
        return "running", ""
    if first.get("state") in STATES[1:] and all(map(pods.terminated, found.pods)):
        return str(first["state"]), str(first.get("reason", ""))
    if any(map(pods.terminated, found.pods)):
        return "running", _first_reason(found)
    return "pending", _first_reason(found) or _preparing(found)[1] or "its pods have not been started yet"


def _preparing(found: JobInPods) -> tuple[str, str]:
    """Return state and reason of a job whose models and data are put on the volume first."""
    concluded, message = _concluded(found.prepare)
    reason = next(
        (f"pod {pods.metadata_of(pod)['name']}: {pods.why(pod)}" for pod in found.prepares if pods.why(pod)), ""
    )
    if concluded == "failed":
        return "failed", f"its data could not be prepared: {reason or message}"
    if found.prepare and not concluded:
        return "pending", reason or "its models and data are put on the volume"
    return "pending", ""


def _first_reason(found: JobInPods) -> str:
    """Return why the first pod that does not run does not, in the words of train.yml."""
    causes_of_waiting = causes.of_waiting(found.pods, {})
    if causes_of_waiting:
        return causes_of_waiting[0].text
    ended_pods = [pod for pod in found.pods if not pods.is_running(pod) and (pods.terminated(pod) or pods.why(pod))]
    return causes.of_failure(ended_pods).text if ended_pods else ""


def is_starting(config: Object, now: datetime | None = None) -> bool:
    """Tell whether a job of this ConfigMap is being started; a start that was interrupted counts for 10 minutes."""
    notes = pods.metadata_of(config)["annotations"]
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


def entry(found: JobInPods) -> dict[str, Any]:
    """Return a job as jobs_info returns those of hosts, and `kubernetes`: what only jobs in pods have.

    path: its directory on the volume. ranks: each with its pod as `host`.
    """
    state = status(found)
    if found.unanswered:
        state["notes"] = [*state.get("notes", []), f"its progress is not known: {found.unanswered}"]
    return {
        "name": found.name,
        "path": str(found.reported.get("directory") or found.directory),
        "status": state,
        "progress": found.reported.get("progress") or {},
        "ranks": ranks_of(found.reported.get("ranks")),
        "kubernetes": {
            "namespace": found.namespace,
            "kind": found.kind,
            "name": found.name,
            "start": found.start,
            "user": found.said(BY_USER),
            "pods": [pods.pod_row(pod) for pod in found.pods],
        },
    }


def ranks_of(told: Any) -> list[dict[str, Any]]:
    """Return the ranks of ranks.json, {rank: what it told} or a list of these, as a list by rank."""
    if isinstance(told, Mapping):
        told = [{"rank": int(rank), **one} for rank, one in told.items()]
    return sorted((dict(one) for one in told or []), key=lambda one: int(one.get("rank", 0)))


# What is removed


def removable(objects: Iterable[Object], name: str) -> list[Object]:
    """Return which objects of a job can be removed, in the order in which they are.

    Objects without the collection's own labels, those of other jobs and claims are never among them, nor is what
    another object owns: it is removed with that. A reader that runs is of somebody who fetches results now.
    """
    places = list(kinds.OF_JOBS)
    found = [
        one
        for one in objects
        if ours(one)
        and pods.metadata_of(one)["labels"][JOB_LABEL] == name
        and one.get("kind") in places
        and not pods.metadata_of(one).get("ownerReferences")
        and (pods.role_of(one) != READS or pods.has_read(one))
    ]
    return sorted(found, key=lambda one: (places.index(str(one["kind"])), pods.metadata_of(one)["name"]))


def is_missing(name: str, namespace: str, known: Sequence[JobInPods]) -> str:
    """Return the message for a job that neither hosts nor Kubernetes have."""
    there = ", ".join(f"{found.name} ({status(found)['state']})" for found in known)
    return (
        f"no job {name} was started, neither on a host of the inventory nor in namespace {namespace}. "
        + (f"Jobs in the namespace: {there}. " if there else "The namespace has no job. ")
        + "playbooks/status.yml lists all jobs; with -e volume=true also those of which only the volume has files"
    )
