# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who starts a job: of several starts at the same time, the one whose ConfigMap the API server takes.

The ConfigMap of a previous run is changed in place, and only as long as it is the one that the checks have seen. Where
the start fails, it becomes again what it was, with the state of the previous run, whose other objects may be gone.
"""

from __future__ import annotations

from datetime import datetime, timezone

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    SINCE,
    START,
    Object,
)


def record(found: jobs.Found) -> Object:
    """Return the ConfigMap of a run that has ended as it is when nothing else is left of the run; {} for no run."""
    if not (found.config or found.training):
        return {}
    status = jobs.status(found)
    ended = {
        jobs.STATE: str(status["state"]),
        jobs.REASON: str(status["reason"]),
        jobs.ENDED: str(status.get("ended", "")),
    }
    about = found.config.get("metadata") or {}
    notes = {
        **(about.get("annotations") or {}),
        **{key: found.said(key) for key in (START, BY_USER, SINCE)},
        **(ended if jobs.has_ended(status["state"]) else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": found.name,
            "namespace": found.namespace,
            "labels": about.get("labels") or {jobs.MANAGED_BY: jobs.MANAGER, JOB_LABEL: found.name},
            "annotations": {key: value for key, value in notes.items() if value and key != jobs.STARTING},
        },
        **{key: found.config[key] for key in ("data", "binaryData") if found.config.get(key)},
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
    name, namespace = config["metadata"]["name"], config["metadata"]["namespace"]
    there = api.read("v1", "ConfigMap", namespace, name)
    if there is None:
        return f"job {job}: its ConfigMap {name} was removed from namespace {namespace} during this start"
    notes = there["metadata"].get("annotations") or {}
    if notes.get(jobs.STATE):
        return f"job {job} was {notes[jobs.STATE]} during this start: ConfigMap {name} says so"
    by = f" by {notes[BY_USER]}" if notes.get(BY_USER) else ""
    since = f" (since {notes[SINCE]})" if notes.get(SINCE) else ""
    return (
        f"job {job} was started{by} at the same time{since}, and that start was first: follow it "
        f"(playbooks/logs.yml -e job={job}), or give this job another name"
    )
