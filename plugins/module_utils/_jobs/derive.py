# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One job made from another: a verification, the same job on other hosts, with other cores or for a few steps.

A derived job is an ordinary job: it is planned, launched and watched as any other, in a directory of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import NAME

VERIFICATION = "verify"
"""Name of the job that verifies a plan."""

SETTINGS_OF_CORES = ("ranks_per_node", "comm_cores", "reserved_cores", "threads_per_core")
"""The fields of a job that decide which core does what."""


def derived(job: Job, suffix: str, **changes: Any) -> Job:
    """Return `job` under the name NAME-SUFFIX with these fields changed; a mapping is merged with the job's own.

    Nothing is expected of its results but that it ends: `expect` is empty unless given. Raises ValueError when the name
    is none for a job.
    """
    name = f"{job.name}-{suffix}"
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a job: at most 63 lower-case letters, digits, '.', '_' and '-'")
    merged: dict[str, Any] = {
        field: {**getattr(job, field), **value} if isinstance(value, dict) else value
        for field, value in changes.items()
    }
    everything: dict[str, Any] = {"expect": {}, **merged, "name": name}
    return replace(job, **everything)


def on_hosts(job: Job, count: int) -> Job:
    """Return the job on the first `count` hosts."""
    return derived(job, f"on-{count}", hosts=count, min_hosts=None)


def with_cores(job: Job, suffix: str, **cores: int | str) -> Job:
    """Return the job with another allocation: each of SETTINGS_OF_CORES that is to change."""
    unknown = sorted(set(cores).difference(SETTINGS_OF_CORES))
    if unknown:
        raise ValueError(f"{unknown[0]} is no setting of cores: {', '.join(SETTINGS_OF_CORES)} are")
    return derived(job, suffix, **cores)


def verification(job: Job, script: Path) -> Job:
    """Return the job that verifies the plan of `job`: its settings and environment, with `script` for its script.

    What belongs to the job's own script (arguments, data, models, requirements, secrets) is left out.
    """
    return replace(
        job,
        name=VERIFICATION,
        kind=kinds.VERIFICATION.name,
        script=script,
        project=None,
        args={},
        prepare=None,
        models={},
        data={},
        metrics={},
        requirements=[],
        wheels=[],
        expect={},
        checkpoints=None,
        env_from=[],
        secrets={},
    )
