# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a job: its objects are created in one transaction, of which nothing is left where it fails.

Of several starts at the same time the one is first whose ConfigMap the API server takes. That of a previous run is
changed in place, and only as long as it is the one that the checks have seen. Where the start fails, it becomes again
what it was, with the state of the previous run, whose other objects may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    checks,
    jobs,
    kinds,
    manifest,
    objects,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import Derived
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import Follower
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    MANAGED_BY,
    MANAGER,
    SINCE,
    START,
    Object,
)

# Seconds in which objects of a previous run, or of a start that has failed, have to be gone.
REMOVAL = 120.0


@dataclass(frozen=True)
class Plan:
    """The objects of a start that passed all checks.

    config: the ConfigMap, by which one start is chosen. version: that which there is, of a previous run; empty for
    none. record: to what it is changed again where this start fails; empty for no previous run. shared: what other
    jobs use as well, and is missing. previous: what is left of a previous run. prepare: the Job that prepares the
    data; None for none. trains: what trains, in the order in which it is created.
    """

    derived: Derived
    config: Object
    version: str
    record: Object
    shared: Sequence[Object]
    previous: Sequence[jobs.Object]
    prepare: Object | None
    trains: Sequence[Object]


def plan(
    api: Api,
    job: Job,
    derive: Callable[[str], tuple[Derived, Mapping[str, Any]]],
    start: str,
    say: Callable[[str], None],
    *,
    resume: bool = False,
    check_nodes: bool = True,
) -> Plan:
    """Check a job and the cluster, and return the objects of its start. Nothing is changed.

    derive: returns what follows from the job for a start, and the tree of its project. start: a new one. resume:
    whether it goes on in the directory of its previous run. Raises ValueError with a line for each refusal.
    """
    derived, tree = derive(start)
    made = manifest.render(derived, manifest.job_files(derived, job, tree))
    secret = [objects.secret(derived, {})] if derived.secret else []
    cluster = checks.gather(api, derived, [*secret, *made])
    refused = checks.refusals(derived, cluster, api.context, check_nodes)
    if refused:
        lines = "".join(f"\n- {line}" for line in refused)
        raise ValueError(f"Job {job.name} was not started on {api.server}:{lines}")
    previous = next(iter(jobs.group(cluster.earlier, api.namespace)), None)
    if resume:
        if previous is None or not previous.start:
            raise ValueError(f"job {job.name} has no previous run on the cluster to continue: leave job_resume out")
        derived, tree = derive(previous.start)
        made = manifest.render(derived, manifest.job_files(derived, job, tree))
    for note in checks.notes(cluster):
        say(f"  note: {note}")
    there = {"Namespace": bool(cluster.namespace), "PersistentVolumeClaim": cluster.claim is not None}
    own = [item for item in made if item["kind"] not in kinds.SHARED]
    trains = [item for item in own[1:] if not kinds.prepares(item, derived.name)]
    config = previous.config if previous else {}
    return Plan(
        derived,
        own[0],
        str(config["metadata"]["resourceVersion"]) if config else "",
        record(previous) if previous else {},
        [item for item in made if item["kind"] in kinds.SHARED and not there[item["kind"]]],
        [item for item in jobs.removable(cluster.earlier, derived.name) if item["kind"] != "ConfigMap"],
        next((item for item in own if kinds.prepares(item, derived.name)), None),
        trains,
    )


class Transaction:
    """The creation of a job's objects, which is undone where one of them cannot be created, or its pods cannot run."""

    def __init__(self, api: Api, job: str, plan: Plan) -> None:
        """job: its name."""
        self.api, self.job, self.plan = api, job, plan
        self.made: list[Object] = []
        self.shared: list[str] = []
        self.version = ""  # of the ConfigMap, once it is this start's

    def run(self, secret: Object | None, follower: Follower) -> None:
        """Create everything, and wait until the pods run. secret: with its values. Raises ValueError."""
        try:
            self._create(secret, follower)
        except (OSError, ValueError) as error:
            raise ValueError("\n".join([str(error), *self._undo()])) from None

    def _create(self, secret: Object | None, follower: Follower) -> None:
        plan = self.plan
        for item in plan.shared:
            self._create_shared(item)
        # From here on, another start of this job is refused. Nothing of the previous run was changed before.
        self._claim(plan.version)
        for left in plan.previous:
            self._delete(left)
        if secret:
            self._make(secret)
        if plan.prepare:
            # Pods that train would take the CPUs that the one which prepares the data needs.
            self._make(plan.prepare)
            follower.until_prepared()
            self._claim(self.version)  # it may have expired meanwhile
        for item in plan.trains:
            self._make(item)
        with suppress(ValueError):  # the claim expires by itself; where stop.yml was faster, the pods are gone
            self._claim(self.version, starting=False)
        follower.until_running()

    def _claim(self, version: str, *, starting: bool = True) -> None:
        made = write(self.api, self.job, self.plan.config, version, starting=starting)
        if not version:
            self.made.append(made)
        self.version = str(made["metadata"]["resourceVersion"])

    def _make(self, definition: Object) -> None:
        self.made.append({**definition, **self.api.create(definition)})

    def _create_shared(self, definition: Object) -> None:
        try:
            self.api.create(definition)
        except ApiError as error:
            if error.status != 409:  # another start has made it meanwhile
                raise
        self.shared.append(str(definition["kind"]))

    def _delete(self, item: jobs.Object) -> bool:
        about = item["metadata"]
        return self.api.delete(
            item["apiVersion"], item["kind"], about["name"], uid=about.get("uid", ""), seconds=REMOVAL
        )

    def _undo(self) -> list[str]:
        """Remove what this start has created, the last first, and restore the record of the previous run.

        What was there before, also since the checks, is of others, and so are the namespace and the claim, in which
        another job may have begun meanwhile. Returns what came of it, as lines.
        """
        removed, left, kept = list[str](), list[str](), False
        for item in reversed(self.made):
            if item["kind"] == "ConfigMap" and self.plan.record:
                continue
            try:
                if self._delete(item):
                    removed.append(f"{item['kind']} {item['metadata']['name']}")
            except ValueError as error:
                left.append(str(error))
        if self.plan.record and self.version:
            try:
                write(self.api, self.job, self.plan.record, self.version, starting=False)
                kept = True
            except ValueError as error:
                left.append(str(error))
        return [
            *([f"What this start had created was removed: {', '.join(removed) or 'nothing'}."] if self.version else []),
            *(
                [f"Its previous run is kept: playbooks/results.yml -e job={self.job} fetches its results."]
                if kept
                else []
            ),
            *([f"What other jobs may use stays: {', '.join(self.shared)}."] if self.shared else []),
            *([f"Could not be removed: {'; '.join(left)}"] if left else []),
        ]


def record(job: jobs.JobInPods) -> Object:
    """Return the ConfigMap of a run that has ended as it is when nothing else is left of the run; {} for no run."""
    if not (job.config or job.training):
        return {}
    status = jobs.status(job)
    ended = {
        jobs.STATE: str(status["state"]),
        jobs.REASON: str(status["reason"]),
        jobs.ENDED: str(status.get("ended", "")),
    }
    about = job.config.get("metadata") or {}
    notes = {
        **(about.get("annotations") or {}),
        **{key: job.recorded(key) for key in (START, BY_USER, SINCE)},
        **(ended if jobs.has_ended(status["state"]) else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": about.get("labels") or {MANAGED_BY: MANAGER, JOB_LABEL: job.name},
            "annotations": {key: value for key, value in notes.items() if value and key != jobs.STARTING},
        },
        **{key: job.config[key] for key in ("data", "binaryData") if job.config.get(key)},
    }


def write(api: Api, job: str, config: Object, version: str = "", *, starting: bool = True) -> Object:
    """Write the ConfigMap of a job; return it as the server has it.

    version: the resourceVersion that it must have, empty where there must be none. starting: whether what trains is
    still to be created. Raises ValueError, with who has changed it, where another start or stop.yml was first.
    """
    about = config["metadata"]
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    notes = {**(about.get("annotations") or {}), **({jobs.STARTING: now} if starting else {})}
    made = {**config, "metadata": {**about, "annotations": notes}}
    try:
        return api.replace(made, version) if version else api.create(made)
    except ApiError as error:
        if error.status != 409 and not (error.status == 404 and version):
            raise
        raise ValueError(_who_was_first(api, job, made)) from None


def _who_was_first(api: Api, job: str, config: Object) -> str:
    name = config["metadata"]["name"]
    there = api.read("v1", "ConfigMap", name)
    if there is None:
        return f"job {job}: its ConfigMap {name} was removed from namespace {api.namespace} during this start"
    notes = there["metadata"].get("annotations") or {}
    if notes.get(jobs.STATE):
        return f"job {job} was {notes[jobs.STATE]} during this start: ConfigMap {name} says so"
    by = f" by {notes[BY_USER]}" if notes.get(BY_USER) else ""
    since = f" (since {notes[SINCE]})" if notes.get(SINCE) else ""
    return (
        f"job {job} was started{by} at the same time{since}, and that start was first: follow it "
        f"(playbooks/logs.yml -e job={job}), or give this job another name"
    )
