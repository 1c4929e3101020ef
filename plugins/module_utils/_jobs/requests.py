# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts and cores a job requests, with the inventory's settings for jobs that leave them open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import CORES as CORES_OF_SERVER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import DEFAULT, LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue

# The fields of a job that decide which core does what.
CORES = tuple(name for name, row in FIELDS.items() if row.of_cores)


def cores_of(job: Job, inventory: object) -> dict[str, int | str]:
    """Return a job's request for a node's cores: its own CORES, or the inventory's if it leaves all of them open.

    They belong together: communication cores that suit eight ranks do not suit the one rank that another job sets.
    inventory: its cluster_cores. Raises ValueError for what is wrong with these.
    """
    if not isinstance(inventory, Mapping):
        raise ValueError(f"cluster_cores: {inventory!r} is not a mapping such as {{ranks_per_node: 2}}")
    errors: list[str] = []
    checked: dict[str, int | str] = {}
    for name, value in inventory.items():
        if name not in CORES:
            errors.append(f"cluster_cores: {name} is not one of {', '.join(CORES)}")
            continue
        try:
            checked[str(name)] = FIELDS[name].form.check(value, Place())
        except ValueError as error:
            errors.append(f"cluster_cores: {name}: {error}")
    if errors:
        raise ValueError("\n".join(errors))
    own = {name: getattr(job, name) for name in CORES}
    return own if any(job.sets(name) for name in CORES) else {**own, **checked}


def inventory_optimize(value: object) -> str | list[str]:
    """Return cluster_optimize of an inventory. Raises ValueError where it is no value of the job field optimize."""
    try:
        checked: str | list[str] = FIELDS["optimize"].form.check(value, Place())
    except ValueError as error:
        raise ValueError(f"cluster_optimize: {error}") from None
    return checked


def cores(run: Run, hosts: int) -> dict[str, int | str]:
    """Return the request of a run, on so many hosts, for a node's cores: the fields of allocation.Request but its
    backend; of a server that is limited to some of them, also how many. Raises ValueError as cores_of does.
    """
    exchanging = hosts if run.job.of_kind().needs_group else 0
    limit = {CORES_OF_SERVER: run.job.request[CORES_OF_SERVER]} if run.job.request.get(CORES_OF_SERVER) else {}
    return {**cores_of(run.job, run.settings.cores), "exchanging_hosts": exchanging, **limit}


def question(run: Run, hosts: Sequence[str], runtime: str, example: str) -> dict[str, Any]:
    """Return what the start of a run asks of each host.

    `backends`: its backend by catalogue.backend_key. `hosts`: those whose cores are allocated; `request`: the settings
    of allocation.Request for that, but its backend. `starting`: the job, whose own locks are left out. `runtime`: the
    name of the archive of programs. `example`: the path of the script among the transformers examples, if it is one.

    Raises ValueError as cores_of does.
    """
    parts = {"starting": run.job.name, "runtime": runtime, "example": example}
    return {**parts, "hosts": [*hosts], "backends": backends(run), "request": cores(run, len(hosts)) if hosts else {}}


def submitted(job: Job, slurm: Mapping[str, object] | None) -> Job:
    """Return a job as an inventory with cluster_slurm runs it: what mpirun would start on hosts is submitted.

    slurm: cluster_slurm, None for an inventory without. Raises ValueError where the job fits neither.
    """
    launcher = LAUNCHERS[job.launcher]
    if slurm is None and launcher.submits:
        raise ValueError(
            f"launcher: {job.launcher} in {job.file} needs cluster_slurm in the inventory, whose head is a login host "
            "of Slurm (docs/slurm.md): set it, or leave launcher out"
        )
    if slurm is None or launcher.runtime != "hosts":
        return job
    if job.launcher != DEFAULT:
        raise ValueError(
            f"launcher: {job.launcher} in {job.file} starts ranks by SSH, and the inventory's host is a login host of "
            "Slurm (cluster_slurm): leave launcher out"
        )
    return replace(job, launcher="slurm")


def choose_hosts(job: Job, usable: Sequence[str]) -> list[str]:
    """Return the hosts that the ranks of a job run on: the first so many of `usable`, or those that it names.

    Raises ValueError when it names hosts that are not among them, requests more than there are, or does not run on
    hosts at all.
    """
    elsewhere = LAUNCHERS[job.launcher].elsewhere(job.file)
    if elsewhere:
        raise ValueError(f"Job {job.name} ({job.file}): {elsewhere}")
    if isinstance(job.hosts, list):
        unknown = [name for name in job.hosts if name not in usable]
        if unknown:
            raise ValueError(
                f"Job {job.name} names {', '.join(unknown)}, which the inventory's cluster does not have "
                f"({', '.join(usable)}): correct hosts in {job.file}."
            )
        return list(job.hosts)
    if (job.hosts or 1) > len(usable):
        raise ValueError(
            f"Job {job.name} requests {job.hosts} hosts and the inventory has {len(usable)} ({', '.join(usable)}): "
            f"set hosts in {job.file} to at most that, or add workers."
        )
    return list(usable[: job.hosts or len(usable)])


def backends(run: Run) -> dict[str, str]:
    """Return the job's backend by catalogue.backend_key; the stack's own where it cannot be, which the plan refuses."""
    by_stack = {}
    for stack in catalogue.BACKENDS:
        try:
            by_stack[stack] = run.backend(stack)
        except ValueError:
            by_stack[stack] = catalogue.BACKENDS[stack][0]
    return by_stack
