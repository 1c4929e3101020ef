# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until the pods of a job run, and follow the job until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ansible_collections.amx.cluster.plugins.module_utils import _text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import results
from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import FAILURE, first_failure
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes, jobs, kinds, pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError

T = TypeVar("T")
# Seconds: how long an image that cannot be pulled is tried again, and an API server that does not answer.
LASTING, SILENT = 60.0, 300.0
PAUSE = 5.0  # seconds until it is asked again
LAST = 400  # lines of a failed pod's log that are searched for the reason


class JobFailed(ValueError):
    """A job has ended without success. ended: its status, progress and outcome, as far as they are known."""

    def __init__(self, message: str, ended: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.ended = dict(ended)


class Progress(Protocol):
    """Shows what is new of a job."""

    def show(self, seen: Mapping[str, Any]) -> None:
        """seen: status, progress and ranks, as the job's files have them."""


class Waits:
    """Prints what pods wait for, when that changes and once a minute, and tells when waiting is of no use."""

    def __init__(self, subject: str, say: Callable[[str], None], timeout: float = 0) -> None:
        """subject: what cannot start without them, such as "job demo". timeout: seconds, 0 for none."""
        self.what, self.say, self.timeout = subject, say, timeout
        self.began = time.monotonic()
        self.since: dict[str, float] = {}
        self.shown: set[str] = set()
        self.due = 0.0

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def show(self, current: list[causes.Cause], *, final: bool = True) -> None:
        """Print what is new of the causes. final: whether to raise ValueError where no waiting mends one."""
        now = time.monotonic()
        self.since = {cause.pod: self.since.get(cause.pod, now) for cause in current if cause.lasting}
        ends = [cause for cause in current if cause.hopeless or now - self.since.get(cause.pod, now) > LASTING]
        if ends and final:
            raise ValueError(f"{self.what} cannot start: {ends[0].text}")
        if final and current and self.timeout and self.elapsed() > self.timeout:
            raise ValueError(f"{self.what} has not started in {_text.duration(self.timeout)}: {current[0].text}")
        again = now >= self.due
        for cause in current:
            if again or cause.text not in self.shown:
                self.say(f"  {cause.text}")
        self.due = now + 60 if again else self.due
        self.shown = {cause.text for cause in current}


@dataclass
class Follower:
    """Follows a job from the start of its pods to its end. job: its name. kind: of what trains. say: prints a line.

    timeout: seconds in which its pods must run, 0 for any. start: whose status is meant; empty for whichever is there.
    """

    api: Api
    job: str
    name: str
    kind: str
    say: Callable[[str], None]
    timeout: float = 0
    interval: float = 2
    start: str = ""
    last: jobs.JobInPods | None = field(default=None, repr=False)

    def look(self, *, report: bool = False) -> jobs.JobInPods:
        """Return the job as it is now. report: whether its supervisor is asked. Raises ApiError, see `_patiently`."""

        def gather() -> jobs.JobInPods:
            there = jobs.gather(self.api, self.name, self.kind)
            job = there[0] if there else jobs.JobInPods(self.name, self.api.namespace)
            return jobs.with_report(self.api, job) if report else job

        return self._patiently(gather)

    def until_prepared(self) -> None:
        """Wait until the job's models and data are on the volume. Raises ValueError where they cannot be."""
        self.say(f"  preparing models and data with pod {self.name}-prepare")
        waits = Waits(f"job {self.job}", self.say, self.timeout)
        while True:
            seen = self.look()
            if not seen.prepare:
                raise ValueError(f"job {self.job}: {self.name}-prepare was removed while it was preparing the data")
            state = kinds.conclusion(seen.prepare)[0]
            if state == "succeeded":
                return
            if state == "failed":
                cause = causes.of_failure(seen.prepares, seen.prepare)
                log = failure_in_logs(self.api, seen.prepares, cause.pod)
                raise ValueError(f"job {self.job} cannot start: its data were not prepared: {cause.text}\n{log}")
            waits.show(self.waiting(replace(seen, training={})))
            time.sleep(self.interval)

    def until_running(self) -> None:
        """Wait until all pods run, or the job has ended, printing what they wait for. Raises ValueError."""
        waits = Waits(f"job {self.job}", self.say, self.timeout)
        while True:
            seen = self.look()
            if not seen.training:
                raise ValueError(f"job {self.job}: its {self.kind} was removed while its pods were starting")
            begun = all(pods.began(pod) or pods.phase(pod) in ("Succeeded", "Failed") for pod in seen.all_pods)
            if kinds.conclusion(seen.training)[0] or (len(seen.pods) >= kinds.wanted(seen.training) and begun):
                placed = [f"{pod['metadata']['name']} on {pod['spec'].get('nodeName', 'no node')}" for pod in seen.pods]
                self.say(f"  {_text.count(len(placed), 'pod')} started: {_text.names(placed)}")
                return
            waits.show(self.waiting(seen) or [self._nothing(seen, waits.elapsed())])
            time.sleep(self.interval)

    def _nothing(self, seen: jobs.JobInPods, elapsed: float) -> causes.Cause:
        """Return what a job waits for that has no pods, or none with a reason."""
        if seen.all_pods or elapsed < 15:
            return causes.Cause("", f"waiting for the pods of {self.kind} {self.name}")
        return causes.Cause(
            "", f"nothing makes the pods of {self.kind} {self.name} yet: see whether its controller (operator) runs"
        )

    def until_ended(self, progress: Progress, *, shows_results: bool = True) -> dict[str, Any]:
        """Show the progress until the job has ended; return {status, progress, outcome}. Raises JobFailed otherwise."""
        waits = Waits(f"job {self.job}", self.say)
        while True:
            seen = self.look(report=True)
            if not seen.training:
                was_stopped = self.last and self.last.own.get("state") == "stopped"
                how = "was stopped" if was_stopped else "was removed from the cluster while it was running"
                raise JobFailed(
                    f"job {self.job} {how}; what it wrote is on the volume: playbooks/results.yml -e job={self.job}",
                    self._ended(),
                )
            if seen.own:
                ranks = {str(rank.get("rank", 0)): rank for rank in jobs.ranks_of(seen.reported.get("ranks"))}
                progress.show({"status": seen.own, "progress": seen.reported.get("progress") or {}, "ranks": ranks})
                self.last = seen
            over = kinds.conclusion(seen.training)[0]
            if over or (seen.own.get("state") in ("succeeded", "stopped") and seen.reported.get("outcome")):
                return self._conclude(seen, over, shows_results=shows_results)
            waits.show(self.waiting(seen), final=False)
            time.sleep(self.interval)

    def _ended(self) -> dict[str, Any]:
        reported = self.last.reported if self.last else {}
        return {key: dict(reported.get(key) or {}) for key in ("status", "progress", "outcome")}

    def _conclude(self, seen: jobs.JobInPods, over: str, *, shows_results: bool) -> dict[str, Any]:
        """Show the outcome. Raises JobFailed with the reason where the job did not succeed."""
        ended = self._ended()
        status, outcome = ended["status"], ended["outcome"]
        first = next((pod for pod in seen.pods if pods.number_of(pod) == 0), {})
        message = pods.outcome(first)
        state = message.get("state") or (status.get("state") if status.get("state") != "running" else "") or over
        if outcome and shows_results:
            self.say(results.table(outcome))
        if state == "succeeded" and over != "failed":
            self.say(
                f"  job {self.job} succeeded; model and metrics are on the volume: playbooks/results.yml -e "
                f"job={self.job}"
            )
            return ended
        if state in ("stopped", "lost"):
            reason = message.get("reason") or status.get("reason") or "it was stopped"
            raise JobFailed(f"job {self.job} {state}: {reason}", ended)
        cause = causes.of_failure(seen.all_pods, seen.training)
        text = f"job {self.job} failed: {cause.text}"
        if status.get("state") == "failed" and status.get("reason") and status["reason"] not in text:
            text += f"\njob {self.job} failed: {status['reason']}"
        if status.get("advice"):
            text += f"\n{status['advice']}"
        raise JobFailed(f"{text}\n{failure_in_logs(self.api, seen.all_pods, cause.pod)}", ended)

    def waiting(self, seen: jobs.JobInPods) -> list[causes.Cause]:
        """Return why pods of the job do not run yet. Raises ApiError as `_patiently` does."""
        made = len(seen.pods if seen.training else seen.prepares)
        silent = [pod for pod in seen.all_pods if pods.phase(pod) in ("", "Pending")]
        if seen.maker and made < kinds.wanted(seen.maker):
            silent.append(seen.maker)
        uids = [str(pod["metadata"]["uid"]) for pod in silent]
        events = self._patiently(lambda: {uid: self.api.events(uid) for uid in uids})
        return causes.of_waiting(seen.all_pods, events, seen.maker or None, made)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Return what a call returns; a server that does not answer for a while is asked again. Raises ApiError."""
        since = time.monotonic()
        while True:
            try:
                return call()
            except ApiError as error:
                if error.status in (401, 403) or time.monotonic() - since > SILENT:
                    raise ApiError(
                        f"{error}\nThe job does not need this connection; playbooks/status.yml -e job={self.job} shows "
                        "its status.",
                        error.status,
                    ) from None
            time.sleep(PAUSE)


def failure_in_logs(api: Api, of_job: Sequence[pods.Object], first: str = "") -> str:
    """Return the part of the pods' logs that tells why the job failed. first: the pod that failed first."""
    logs = {}
    for pod in sorted(of_job, key=lambda item: item["metadata"]["name"] != first):
        name = str(pod["metadata"]["name"])
        try:
            logs[name] = "\n".join(api.log(name, pods.container_of(pod), tail=LAST))
        except ApiError:
            continue
    with_traceback = [text for text in logs.values() if FAILURE.search(text)]
    return first_failure(with_traceback[0] if with_traceback else logs.get(first) or next(iter(logs.values()), ""))
