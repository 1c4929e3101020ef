# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop a job: its own supervisor ends it, then what runs its pods is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import checks, jobs, pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api

# Seconds in which objects have to be gone.
REMOVAL = 180.0


@dataclass(frozen=True)
class Stop:
    """Objects of a job to stop and delete. notes: whether its end is noted in its ConfigMap, which stays."""

    job: jobs.JobInPods
    was_running: bool
    objects: Sequence[jobs.Object]
    notes: bool


def plan(api: Api, job: jobs.JobInPods, *, remove: bool) -> Stop:
    """Return what is to be done. remove: whether every object of the job goes, not only those that run its pods.

    Raises ValueError, before anything is stopped, where this user may not.
    """
    job = jobs.with_report(api, job)
    was_running = not jobs.has_ended(jobs.status(job)["state"])
    runs_pods = [item for item in (job.training, job.prepare) if item]
    removed = jobs.removable(jobs.everything(api, job.name) if remove else runs_pods, job.name)
    # Where nothing was created yet that runs pods, the note ends the start.
    notes = bool(job.config) and not remove and (was_running or bool(removed))
    kinds = dict.fromkeys((item["apiVersion"], item["kind"]) for item in removed)
    rights = [("delete", api.resource(*kind), kind[0].rpartition("/")[0]) for kind in kinds]
    checks.require(api, [*rights, *([("patch", "configmaps")] if notes else [])], ", nothing was stopped")
    return Stop(job, was_running, removed, notes)


def run(api: Api, stop: Stop, seconds: float, say: Callable[[str], None]) -> None:
    """Stop the job, note its end, and delete its objects. seconds: in which it may end by itself. Raises ValueError."""
    before = jobs.status(stop.job)
    after = {"state": before["state"], "reason": before["reason"]}
    if stop.was_running:
        # Deleting its objects ends a job that does not end by itself.
        after = {"state": "stopped", "reason": "it was stopped on request", **_end(api, stop.job, seconds, say)}
    if stop.notes:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        ended = {jobs.STATE: after["state"], jobs.REASON: after["reason"], jobs.ENDED: before.get("ended") or now}
        api.annotate("v1", "ConfigMap", stop.job.config["metadata"]["name"], {key: str(ended[key]) for key in ended})
    for item in stop.objects:
        api.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], seconds=REMOVAL)


def _end(api: Api, job: jobs.JobInPods, seconds: float, say: Callable[[str], None]) -> dict[str, str]:
    """End the job through its own supervisor; return the state and the reason that it has left, if any."""
    first = job.first_running
    if first is None:
        return {}
    try:
        jobs.ask(api, first, ["stop"])
    except ValueError as error:
        say(f"The job cannot end in an orderly way, its pods are deleted: {error}")
        return {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        now = api.read("v1", "Pod", first["metadata"]["name"])
        if now is None:
            return {}
        # A container that has failed may have been started again meanwhile.
        if not pods.is_running(now) or pods.restarts(now) > pods.restarts(first):
            outcome = pods.outcome(now)
            return {key: str(outcome.get(key, "")) for key in ("state", "reason")} if outcome else {}
        time.sleep(1)
    say(f"The job has not ended within {seconds:.0f} s, its pods are deleted")
    return {}
