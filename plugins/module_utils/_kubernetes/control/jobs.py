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
        """Return the pods that train, the newest of each number, by number."""
        return tuple(pods.training_pods(self.all_pods).values())

    @property
    def prepares(self) -> tuple[Object, ...]:
        """Return the pods that prepare the job's data."""
        return tuple(pod for pod in self.all_pods if pods.role_of(pod) == PREPARES)

    @property
    def own(self) -> dict[str, Any]:
        """Return the status.json that the job's supervisor has last written; empty where it has not reported."""
        return dict(self.reported.get("status") or {})

    @property
    def derived(self) -> dict[str, Any]:
        """Return what was derived for the job's pods; empty where its ConfigMap was removed."""
        return _document(self.config, "kubernetes.json")

    @property
    def run(self) -> dict[str, Any]:
        """Return the job's job.json; empty where its ConfigMap was removed."""
        return _document(self.config, "job.json")

    @property
    def job(self) -> str:
        """The name in its job file."""
        return str(self.run.get("job", {}).get("name", self.name))

    @property
    def kind(self) -> str:
        """Return the kind of the object that trains."""
        return str(self.training.get("kind") or self.derived.get("kind") or "Job")

    def recorded(self, annotation: str) -> str:
        """Return an annotation of its objects, or what its ConfigMap has in that place."""
        for item in (self.training, self.config):
            text = pods.metadata_of(item).get("annotations", {}).get(annotation, "")
            if text:
                return str(text)
        own = self.run.get("settings", {})
        return str(own.get(annotation.rpartition("/")[2], "") or "")

    @property
    def start(self) -> str:
        """Return what its directory on the volume is named by, unlike those of other starts; empty where unknown."""
        return self.recorded(START)

    @property
    def directory(self) -> str:
        """Return the job's directory on the volume; empty where it is not known."""
        return f"jobs/{self.name}-{self.start}" if self.start else ""

    @property
    def first_running(self) -> Object | None:
        """Return the job's first pod, which has the supervisor; None while that does not run."""
        return next((pod for pod in self.pods if pods.number_of(pod) == 0 and pods.is_running(pod)), None)

    @property
    def maker(self) -> Object:
        """Return the object that makes pods now: the training object, or the Job that prepares data; empty for
        neither."""
        return self.training or self.prepare

    def pod(self, number: int) -> Object:
        """Return a pod by its number. Raises ValueError where there is none."""
        for pod in self.pods:
            if pods.number_of(pod) == number:
                return pod
        there = ", ".join(str(pods.number_of(pod)) for pod in self.pods)
        raise ValueError(f"job {self.name} has no pod {number}: " + (f"it has {there}" if there else "it has none"))


def _document(config: Object, name: str) -> dict[str, Any]:
    try:
        value = json.loads((config.get("data") or {}).get(name, "{}"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def ours(item: Object) -> bool:
    """Return whether an object is one of a job's and was made by the collection."""
    labels = pods.metadata_of(item)["labels"]
    return bool(labels.get(JOB_LABEL)) and labels.get(MANAGED_BY) == MANAGER


def selector(name: str = "") -> str:
    """Return the labels by which the objects of a job are found, or those of all jobs."""
    return f"{JOB_LABEL}{f'={name}' if name else ''},{MANAGED_BY}={MANAGER}"


def group(objects: Iterable[Object], namespace: str) -> list[JobInPods]:
    """Return the jobs of a namespace, by name, from their objects. Those of others are left out."""
    parts: dict[str, dict[str, Any]] = {}
    for item in filter(ours, objects):
        name, kind = pods.metadata_of(item)["labels"][JOB_LABEL], item["kind"]
        of = parts.setdefault(name, {"all_pods": []})
        if kind == "Pod":
            if pods.role_of(item) != READS:
                of["all_pods"].append(item)
        elif kind == "ConfigMap":
            of["config"] = item
        elif kinds.prepares(item, name):
            of["prepare"] = item
        elif kind in kinds.TRAINING:
            of["training"] = item
    parts = {name: of for name, of in parts.items() if len(of) > 1 or of["all_pods"]}
    return [JobInPods(name, namespace, all_pods=tuple(of.pop("all_pods")), **of) for name, of in sorted(parts.items())]


def gather(api: Api, name: str = "", kind: str = "") -> list[JobInPods]:
    """Return the jobs of the namespace, or the one of this name. kind: of what trains, where it is known.

    Raises ApiError.
    """
    trainings = {key: entry.api_version for key, entry in kinds.TRAINING.items() if not kind or key in (kind, "Job")}
    items = [
        item
        for key, version in {"ConfigMap": "v1", "Pod": "v1", **trainings}.items()
        for item in _list(api, version, key, name)
    ]
    return group(items, api.namespace)


def everything(api: Api, name: str) -> list[Object]:
    """Return all objects of a job, those of its pods' own among them. Raises ApiError."""
    return [item for kind, version in kinds.OF_JOBS.items() for item in _list(api, version, kind, name)]


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
        message = (errors.strip() or out.strip() or f"exit code {code}").splitlines()[-1]
        raise ValueError(f"pod {' '.join(words)} in pod {name}: {message.removeprefix('amx.cluster: ')}")
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
    """Return whether a status is of this run, not of the previous one in the same directory.

    began_at: when the first pod did, by which runs without another time are distinguished.
    """
    status, since = reported.get("status"), job.recorded(SINCE)
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


def status(job: JobInPods) -> dict[str, Any]:
    """Return the status of a job in the form of status.json.

    It is what its own supervisor reports, as long as that can be asked; then what the pods have left, the training
    object says, or was noted when it was stopped. "pending": no pod of it has run yet.
    """
    derived = job.derived
    count = int(derived.get("pods", len(job.pods)))
    base: dict[str, Any] = {
        "job": job.job,
        "state": "running",
        "reason": "",
        "started": time_of(job.recorded(SINCE) or _created(job.training) or _created(job.config)),
        "hosts": count,
        "ranks": count * int(derived.get("ranks", 1)),
        "notes": [],
    }
    if job.own:
        return {**base, **job.own}
    state, reason = _state(job)
    base.update(state=state, reason=reason)
    ended = _ended(job)
    if state in STATES[1:] and ended:
        base["ended"] = ended
    return base


def _created(item: Object) -> str:
    return str(pods.metadata_of(item).get("creationTimestamp") or "")


def _ended(job: JobInPods) -> str:
    times = [str(pods.terminated(pod).get("finishedAt") or "") for pod in job.pods]
    last = (job.training.get("status") or {}).get("completionTime") or max(times, default="")
    return time_of(str(last or job.recorded(ENDED)))


def _concluded(item: Object) -> tuple[str, str]:
    """Return how an object has ended, and what it says about a failure."""
    state, reason, message = kinds.conclusion(item)
    return state, (message or reason) if state == "failed" else ""


def _state(job: JobInPods) -> tuple[str, str]:
    """Return (state, reason) without what its supervisor says."""
    messages = [pods.outcome(pod) for pod in job.pods]
    first = next((message for pod, message in zip(job.pods, messages) if pods.number_of(pod) == 0 and message), {})
    concluded, message = _concluded(job.training)
    if concluded:
        if first.get("state") in STATES[1:]:
            return str(first["state"]), str(first.get("reason") or message)
        cause = causes.of_failure([*job.pods, *job.prepares], job.training).text if concluded == "failed" else ""
        return concluded, cause or message
    if not job.training:
        noted = job.recorded(STATE)
        if noted:
            return noted, job.recorded(REASON)
        if is_starting(job.config):
            state, reason = _preparing(job)
            return state, reason or "it is being started"
        if first:
            return str(first["state"]), str(first.get("reason", ""))
        if job.prepare:
            return _preparing(job)
        return "lost", f"its {job.kind} is no longer in namespace {job.namespace}"
    if any(map(pods.is_running, job.pods)):
        return "running", ""
    if first.get("state") in STATES[1:] and all(map(pods.terminated, job.pods)):
        return str(first["state"]), str(first.get("reason", ""))
    if any(map(pods.terminated, job.pods)):
        return "running", _first_reason(job)
    return "pending", _first_reason(job) or _preparing(job)[1] or "its pods have not been started yet"


def _preparing(job: JobInPods) -> tuple[str, str]:
    """Return state and reason of a job whose models and data are put on the volume first."""
    concluded, message = _concluded(job.prepare)
    reason = next(
        (f"pod {pods.metadata_of(pod)['name']}: {pods.why(pod)}" for pod in job.prepares if pods.why(pod)), ""
    )
    if concluded == "failed":
        return "failed", f"its data could not be prepared: {reason or message}"
    if job.prepare and not concluded:
        return "pending", reason or "its models and data are put on the volume"
    return "pending", ""


def _first_reason(job: JobInPods) -> str:
    """Return why the first pod that does not run does not, in the words of train.yml."""
    causes_of_waiting = causes.of_waiting(job.pods, {})
    if causes_of_waiting:
        return causes_of_waiting[0].text
    ended_pods = [pod for pod in job.pods if not pods.is_running(pod) and (pods.terminated(pod) or pods.why(pod))]
    return causes.of_failure(ended_pods).text if ended_pods else ""


def is_starting(config: Object, now: datetime | None = None) -> bool:
    """Return whether a job of this ConfigMap is being started; a start that was interrupted counts for 10 minutes."""
    notes = pods.metadata_of(config)["annotations"]
    if STARTING not in notes or STATE in notes:
        return False
    try:
        began = datetime.fromisoformat(time_of(str(notes[STARTING])))
    except ValueError:
        return False
    return ((now or datetime.now(timezone.utc)) - began).total_seconds() < STARTING_SECONDS


def has_ended(state: str) -> bool:
    """Return whether a job of this state has ended."""
    return state in STATES[1:]


def entry(job: JobInPods) -> dict[str, Any]:
    """Return a job as jobs_info returns those of hosts, and `kubernetes`: what only jobs in pods have.

    path: its directory on the volume. ranks: each with its pod as `host`.
    """
    state = status(job)
    if job.unanswered:
        state["notes"] = [*state.get("notes", []), f"its progress is not known: {job.unanswered}"]
    return {
        "name": job.name,
        "path": str(job.reported.get("directory") or job.directory),
        "status": state,
        "progress": job.reported.get("progress") or {},
        "ranks": ranks_of(job.reported.get("ranks")),
        "kubernetes": {
            "namespace": job.namespace,
            "kind": job.kind,
            "name": job.name,
            "start": job.start,
            "user": job.recorded(BY_USER),
            "pods": [pods.pod_row(pod) for pod in job.pods],
        },
    }


def ranks_of(reported: Any) -> list[dict[str, Any]]:
    """Return the ranks of ranks.json, {rank: what it told} or a list of these, as a list by rank."""
    if isinstance(reported, Mapping):
        reported = [{"rank": int(rank), **entry} for rank, entry in reported.items()]
    return sorted((dict(entry) for entry in reported or []), key=lambda entry: int(entry.get("rank", 0)))


# What is removed


def removable(objects: Iterable[Object], name: str) -> list[Object]:
    """Return which objects of a job can be removed, in the order in which they are.

    Objects without the collection's own labels, those of other jobs and claims are never among them, nor is what
    another object owns: it is removed with that. A reader that runs is of somebody who fetches results now.
    """
    places = list(kinds.OF_JOBS)
    items = [
        item
        for item in objects
        if ours(item)
        and pods.metadata_of(item)["labels"][JOB_LABEL] == name
        and item.get("kind") in places
        and not pods.metadata_of(item).get("ownerReferences")
        and (pods.role_of(item) != READS or pods.has_read(item))
    ]
    return sorted(items, key=lambda item: (places.index(str(item["kind"])), pods.metadata_of(item)["name"]))


def is_missing(name: str, namespace: str, known: Sequence[JobInPods]) -> str:
    """Return the message for a job that neither hosts nor Kubernetes have."""
    there = ", ".join(f"{job.name} ({status(job)['state']})" for job in known)
    return (
        f"no job {name} was started, neither on a host of the inventory nor in namespace {namespace}. "
        + (f"Jobs in the namespace: {there}. " if there else "The namespace has no job. ")
        + "playbooks/status.yml lists all jobs; with -e volume=true also those of which only the volume has files"
    )
