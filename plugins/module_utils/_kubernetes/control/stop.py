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
    """What there is to be stopped and deleted. notes: whether its end is noted in its ConfigMap, which stays."""

    job: jobs.JobInPods
    was_running: bool
    objects: Sequence[jobs.Object]
    notes: bool


def plan(api: Api, found: jobs.JobInPods, *, remove: bool) -> Stop:
    """Return what is to be done. remove: whether every object of the job goes, not only those that run its pods.

    Raises ValueError, before anything is stopped, where this user may not.
    """
    found = jobs.with_report(api, found)
    was_running = not jobs.has_ended(jobs.status(found)["state"])
    runs_pods = [one for one in (found.training, found.prepare) if one]
    removed = jobs.removable(jobs.everything(api, found.name) if remove else runs_pods, found.name)
    # Where nothing was created yet that runs pods, the note ends the start.
    notes = bool(found.config) and not remove and (was_running or bool(removed))
    kinds = dict.fromkeys((one["apiVersion"], one["kind"]) for one in removed)
    rights = [("delete", api.resource(*kind), kind[0].rpartition("/")[0]) for kind in kinds]
    checks.require(api, [*rights, *([("patch", "configmaps")] if notes else [])], ", nothing was stopped")
    return Stop(found, was_running, removed, notes)


def run(api: Api, what: Stop, seconds: float, say: Callable[[str], None]) -> None:
    """Stop the job, note its end, and delete its objects. seconds: in which it may end by itself. Raises ValueError."""
    before = jobs.status(what.job)
    after = {"state": before["state"], "reason": before["reason"]}
    if what.was_running:
        # Deleting its objects ends a job that does not end by itself.
        after = {"state": "stopped", "reason": "it was stopped on request", **_end(api, what.job, seconds, say)}
    if what.notes:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        ended = {jobs.STATE: after["state"], jobs.REASON: after["reason"], jobs.ENDED: before.get("ended") or now}
        api.annotate("v1", "ConfigMap", what.job.config["metadata"]["name"], {key: str(ended[key]) for key in ended})
    for one in what.objects:
        api.delete(one["apiVersion"], one["kind"], one["metadata"]["name"], seconds=REMOVAL)


def _end(api: Api, found: jobs.JobInPods, seconds: float, say: Callable[[str], None]) -> dict[str, str]:
    """Have the job ended by its own supervisor; return the state and the reason that it has left, if any."""
    first = found.first_running
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
            said = pods.outcome(now)
            return {key: str(said.get(key, "")) for key in ("state", "reason")} if said else {}
        time.sleep(1)
    say(f"The job has not ended within {seconds:.0f} s, its pods are deleted")
    return {}
