# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import results
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes, settings, training
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.plugin_utils import following, inventory_in_use, pods

display = Display()
T = TypeVar("T")

# Seconds: how long an image that cannot be pulled is tried again, and an API server that does not answer.
LASTING, SILENT = 60.0, 300.0
PAUSE = 5.0  # seconds until it is asked again


class Waits:
    """Prints what a job waits for, when that changes and once a minute, and tells when waiting is of no use."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.job, self.timeout = options["job"], options["timeout"]
        self.began = time.monotonic()
        self.since: dict[str, float] = {}
        self.shown: set[str] = set()
        self.due = 0.0

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def show(self, found: list[causes.Cause], *, final: bool = True) -> None:
        """Print what is new of the causes. final: whether to raise ValueError where no waiting mends one."""
        now = time.monotonic()
        self.since = {cause.pod: self.since.get(cause.pod, now) for cause in found if cause.lasting}
        ends = [cause for cause in found if cause.hopeless or now - self.since.get(cause.pod, now) > LASTING]
        if ends and final:
            raise ValueError(f"job {self.job} cannot start: {ends[0].text}")
        if final and found and self.timeout and self.elapsed() > self.timeout:
            raise ValueError(f"job {self.job} has not started in {_text.duration(self.timeout)}: {found[0].text}")
        again = now >= self.due
        for cause in found:
            if again or cause.text not in self.shown:
                display.display(f"  {cause.text}")
        self.due = now + 60 if again else self.due
        self.shown = {cause.text for cause in found}


class ActionModule(ActionBase):
    """Waits on the control node until the pods of a job run, or follows the job until it ends."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "kubernetes": {"type": "raw", "required": True},
                "job": {"type": "str", "required": True},
                "name": {"type": "str", "required": True},
                "start": {"type": "str", "default": ""},
                "until": {"type": "str", "choices": ["prepared", "running", "ended"], "default": "ended"},
                "timeout": {"type": "float", "default": 0},
                "interval": {"type": "float", "default": 2},
            }
        )
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "nothing is started in check mode"}
        try:
            chosen = settings.read(options["kubernetes"])
            api = Api.connect(chosen.kubeconfig, chosen.context)
            job = pods.JobOfPods(api, chosen.kind, chosen.namespace, options["name"], options["start"])
            waits = {"prepared": self.until_prepared, "running": self.until_running, "ended": self.until_ended}
            return waits[options["until"]](job, options, task_vars)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}

    def until_prepared(
        self, job: pods.JobOfPods, options: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Wait until the job's models and data are on the volume. Raises ValueError where they cannot be."""
        display.display(f"  preparing models and data with pod {job.name}-prepare")
        waits = Waits(options)
        while True:
            seen = self.look(job)
            prepares = self.patiently(
                job, partial(job.api.read, "batch/v1", "Job", job.namespace, f"{job.name}-prepare")
            )
            if prepares is None:
                raise ValueError(
                    f"job {options['job']}: {job.name}-prepare was removed while it was preparing the data"
                )
            state = training.ended(prepares)
            if state == "succeeded":
                return {"changed": False, "pods": [pod["metadata"]["name"] for pod in pods.prepares(seen)]}
            if state == "failed":
                cause = causes.of_failure(pods.prepares(seen), prepares)
                log = job.failure_in_logs(pods.prepares(seen), cause.pod)
                raise ValueError(f"job {options['job']} cannot start: its data were not prepared: {cause.text}\n{log}")
            waits.show(self.waiting(job, seen, prepares))
            time.sleep(options["interval"])

    def until_running(
        self, job: pods.JobOfPods, options: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Wait until all pods run, or the job has ended, printing what they wait for. Raises ValueError."""
        waits = Waits(options)
        while True:
            seen = self.look(job)
            if seen.trains is None:
                raise ValueError(f"job {options['job']}: its {job.kind} was removed while its pods were starting")
            trains = training.training_pods(seen.pods)
            there = len(trains) >= training.wanted(seen.trains) and self.all_started(seen)
            if training.ended(seen.trains) or there:
                display.display(self.where(seen))
                return {"changed": False, "pods": [pod["metadata"]["name"] for pod in trains.values()]}
            waits.show(self.waiting(job, seen) or [self.nothing(job, seen, waits.elapsed())])
            time.sleep(options["interval"])

    @staticmethod
    def all_started(seen: pods.Look) -> bool:
        """Tell whether every pod, also those that prepare the data, has started or ended."""
        return all(
            pods.started(pod) or pod.get("status", {}).get("phase") in ("Succeeded", "Failed") for pod in seen.pods
        )

    @staticmethod
    def nothing(job: pods.JobOfPods, seen: pods.Look, elapsed: float) -> causes.Cause:
        """Return what a job waits for that has no pods, or none with a reason."""
        if seen.pods or elapsed < 15:
            return causes.Cause("", f"waiting for the pods of {job.kind} {job.name}")
        return causes.Cause(
            "", f"nothing makes the pods of {job.kind} {job.name} yet: see whether its controller (operator) runs"
        )

    @staticmethod
    def where(seen: pods.Look) -> str:
        """Return the pods and their nodes as a line."""
        trains = training.training_pods(seen.pods).values()
        placed = [f"{pod['metadata']['name']} on {pod['spec'].get('nodeName', 'no node')}" for pod in trains]
        return f"  {_text.count(len(placed), 'pod')} started: {_text.names(placed)}"

    def until_ended(
        self, job: pods.JobOfPods, options: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Print the progress until the job has ended. Raises ValueError with the reason of a job that failed."""
        name = options["job"]
        come_back = f"Ctrl-C leaves job {name} running. Its log: playbooks/logs.yml -e job={name}"
        display.display(inventory_in_use.commands(come_back, task_vars))
        progress = following.Progress(name)
        try:
            return self.follow(job, progress, options, task_vars)
        finally:
            progress.close()

    def follow(
        self,
        job: pods.JobOfPods,
        progress: following.Progress,
        options: dict[str, Any],
        task_vars: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Look at the job again and again until it has ended. Raises ValueError as until_ended does."""
        name, last, waits = options["job"], dict[str, Any](), Waits(options)
        while True:
            seen = self.look(job)
            if seen.trains is None:
                state = (last.get("status") or {}).get("state")
                told = "was stopped" if state == "stopped" else "was removed from the cluster while it was running"
                raise ValueError(
                    f"job {name} {told}; what it wrote is on the volume: playbooks/results.yml -e job={name}"
                )
            if seen.told:
                progress.show(seen.seen())
                last = seen.told
            elif seen.unanswered:
                display.vv(seen.unanswered)
            over = training.ended(seen.trains)
            if over or (seen.status.get("state") in ("succeeded", "stopped") and seen.told.get("outcome")):
                return self.conclude(job, seen, last, over, options, task_vars)
            waits.show(self.waiting(job, seen), final=False)
            time.sleep(options["interval"])

    def conclude(
        self,
        job: pods.JobOfPods,
        seen: pods.Look,
        last: dict[str, Any],
        over: str,
        options: dict[str, Any],
        task_vars: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Show the outcome. Raises ValueError with the reason where the job did not succeed."""
        name, first = options["job"], training.training_pods(seen.pods).get(0)
        status, outcome = dict(last.get("status") or {}), last.get("outcome") or {}
        ended = causes.outcome(first) if first else {}
        state = ended.get("state") or (status.get("state") if status.get("state") != "running" else "") or over
        if outcome:
            display.display(results.table(outcome))
        result = {"changed": False, "status": status, "outcome": outcome, "progress": last.get("progress") or {}}
        if state == "succeeded" and over != "failed":
            where = inventory_in_use.commands(f"playbooks/results.yml -e job={name}", task_vars)
            display.display(f"  job {name} succeeded; model and metrics are on the volume: {where}")
            return result
        if state in ("stopped", "lost"):
            raise ValueError(f"job {name} {state}: {ended.get('reason') or status.get('reason') or 'it was stopped'}")
        cause = causes.of_failure(seen.pods, seen.trains)
        told = f"job {name} failed: {cause.text}"
        if status.get("state") == "failed" and status.get("reason") and status["reason"] not in told:
            told += f"\n{following.reason({'job': name, **status})}"
        raise ValueError(f"{told}\n{job.failure_in_logs(seen.pods, cause.pod)}")

    def look(self, job: pods.JobOfPods) -> pods.Look:
        """Look at the job. Raises ApiError as `patiently` does."""
        return self.patiently(job, partial(pods.look, job))

    def waiting(
        self, job: pods.JobOfPods, seen: pods.Look, preparing: dict[str, Any] | None = None
    ) -> list[causes.Cause]:
        """Return why pods of the job do not run yet, as `pods.waiting`. Raises ApiError as `patiently` does."""
        return self.patiently(job, partial(pods.waiting, seen, job, preparing))

    @staticmethod
    def patiently(job: pods.JobOfPods, call: Callable[[], T]) -> T:
        """Return what a call returns; a server that does not answer for a while is asked again. Raises ApiError."""
        since = time.monotonic()
        while True:
            try:
                return call()
            except ApiError as error:
                if error.status in (401, 403) or time.monotonic() - since > SILENT:
                    raise ApiError(
                        f"{error}\nThe job does not need this connection; playbooks/status.yml -e job={job.name} shows "
                        "its status.",
                        error.status,
                    ) from None
            time.sleep(PAUSE)
