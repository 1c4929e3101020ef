# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job on Kubernetes as the control node sees it: its objects, and what its first pod tells about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import FAILURE, first_failure
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    causes,
    objects,
    observed_pods,
    training,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import PROGRAM


@dataclass(frozen=True)
class JobOfPods:
    """A job's objects in a namespace. name: of its objects. start: empty for whichever start is there."""

    api: Api
    kind: str
    namespace: str
    name: str
    start: str = ""

    def training(self) -> dict[str, Any] | None:
        """Return its training object; None where it was removed. Raises ApiError."""
        return self.api.read(training.API_VERSIONS[self.kind], self.kind, self.namespace, self.name)

    def events(self, objects: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """Return the events about objects, by their uid. Raises ApiError."""
        return {uid: self.api.events(self.namespace, uid) for uid in (str(one["metadata"]["uid"]) for one in objects)}

    def container(self, pod: Mapping[str, Any]) -> str:
        """Return the name of the container in which a pod does its work."""
        return str(pod["spec"]["containers"][0]["name"])

    def ask(self, pod: Mapping[str, Any], *words: str, timeout: float = 30) -> dict[str, Any]:
        """Return what pod.py prints in a pod. Raises ApiError where it cannot be run, or fails."""
        name = str(pod["metadata"]["name"])
        code, out, errors = self.api.exec(self.namespace, name, self.container(pod), [*PROGRAM, *words], timeout)
        lines = [line for line in out.splitlines() if line.strip()]
        try:
            if code == 0:
                return dict(json.loads(lines[-1]))
        except (ValueError, IndexError, TypeError):
            pass
        told = [line for line in errors.splitlines() if line.strip()] or lines or ["nothing was printed"]
        raise ApiError(f"pod.py {' '.join(words)} in pod {name} ended with exit code {code}: {told[-1]}")

    def failure_in_logs(self, pods: Sequence[Mapping[str, Any]], first: str = "", lines: int = 400) -> str:
        """Return the part of the pods' logs that tells why the job failed. first: the pod that failed first."""
        logs = {}
        for pod in sorted(pods, key=lambda one: one["metadata"]["name"] != first):
            name = str(pod["metadata"]["name"])
            try:
                logs[name] = "\n".join(self.api.log(self.namespace, name, self.container(pod), tail=lines))
            except ApiError:
                continue
        with_traceback = [text for text in logs.values() if FAILURE.search(text)]
        return first_failure(with_traceback[0] if with_traceback else logs.get(first) or next(iter(logs.values()), ""))


@dataclass
class Look:
    """What was seen of a job at one time. told: what pod.py status printed, empty where no pod could be asked."""

    pods: list[dict[str, Any]]
    trains: dict[str, Any] | None
    told: dict[str, Any] = field(default_factory=dict)
    unanswered: str = ""
    """Why the first pod, which runs, did not tell."""

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.told.get("status") or {})

    def seen(self) -> dict[str, Any]:
        """Return status, progress and ranks in the form that following.Progress takes."""
        ranks = self.told.get("ranks") or {}
        if isinstance(ranks, list):
            ranks = {str(one.get("rank", place)): one for place, one in enumerate(ranks)}
        return {"status": self.status, "progress": self.told.get("progress") or {}, "ranks": ranks}


def started(pod: Mapping[str, Any]) -> str:
    """Return when the container of a pod began to run (RFC 3339); an empty string while it does not."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        running = status.get("state", {}).get("running")
        if running:
            return str(running.get("startedAt") or pod["status"].get("startTime") or "")
    return ""


def look(job: JobOfPods) -> Look:
    """Look at a job. Raises ApiError where the API server does not answer."""
    pods = job.api.pods(job.namespace, job.name)
    seen = Look(pods, job.training())
    first = training.training_pods(pods).get(0)
    if first is not None and started(first):
        try:
            told = job.ask(first, "status", *([job.start] if job.start else []))
        except ApiError as error:
            seen.unanswered = str(error)  # a pod that ends just now cannot be asked: its state tells
            return seen
        if is_of(told, seen.trains or {}, started(first)):
            seen.told = told
    return seen


def is_of(told: Mapping[str, Any], trains: Mapping[str, Any], began: str) -> bool:
    """Tell whether a status is of this run, not of the previous one in the same directory.

    trains: its training object. began: when its first pod did, by which runs are told apart that have no other time.
    """
    status = told.get("status")
    if not status:
        return False
    since = observed_pods.metadata_of(trains)["annotations"].get(objects.SINCE)
    if since and "since" in status:
        return bool(status["since"] == since)
    if status.get("state") == "running":
        return True
    try:
        return _time(str(status["started"])) >= _time(began) - 2
    except (KeyError, ValueError):
        return True


def _time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def waiting(seen: Look, job: JobOfPods, preparing: Mapping[str, Any] | None = None) -> list[causes.Cause]:
    """Return why pods of the job do not run yet. preparing: the Job that prepares its data, while that makes pods."""
    maker = preparing or seen.trains
    made = len(prepares(seen) if preparing else training.training_pods(seen.pods))
    silent = [pod for pod in seen.pods if pod.get("status", {}).get("phase") in (None, "Pending")]
    if maker and made < training.wanted(maker):
        silent.append(dict(maker))
    return causes.of_waiting(seen.pods, job.events(silent), maker, made)


def prepares(seen: Look) -> list[dict[str, Any]]:
    """Return the pods that prepare the job's data."""
    return [pod for pod in seen.pods if pod["metadata"].get("labels", {}).get(objects.ROLE_LABEL) == objects.PREPARES]
