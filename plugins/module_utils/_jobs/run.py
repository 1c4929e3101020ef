# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a job: the job, and where and for whom this cluster runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs import optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import FIELDS, Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS

# The fields of a job that decide which core does what.
CORES = tuple(name for name, row in FIELDS.items() if row.of_cores)


@dataclass(frozen=True)
class Settings:
    """What a run is set to besides its job file.

    head: the host that launches and supervises it; head_address, head_interface: its address on the cluster network,
    and the interface that has it, which may have another name on other hosts. world_timeout: seconds that rank 0 waits
    for the others. shared_directory: whether the hosts share the job directories. user, since: who started it on the
    control node, and when (ISO 8601, UTC). backend, cores, optimize: the inventory's, for a job that leaves them open;
    cores is a mapping of CORES or of some of them, optimize has the values of the field. start: tells this start from
    every other one. project: what project.Project.summary returns, and `paths`, the directories in the job directory
    from which its modules are imported; empty without one. host_price: what a host costs an hour, as the inventory has
    it. notices: the address of the hosts' metadata service, which announces that a host is taken back (http://ADDRESS);
    empty where there is none. given: the options of the command that has started it, for one that continues it.
    """

    head: str
    head_address: str = ""
    head_interface: str = ""
    world_timeout: int = 60
    shared_directory: bool = False
    user: str = ""
    since: str = ""
    start: str = ""
    backend: str = "auto"
    cores: dict[str, Any] = field(default_factory=dict)
    optimize: Any = optimizing.AUTO
    project: dict[str, Any] = field(default_factory=dict)
    host_price: str = ""
    notices: str = ""
    given: str = ""


@dataclass(frozen=True)
class Run:
    """A job with its settings, as job.json in the job directory has it."""

    job: Job
    settings: Settings

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON can hold it; from_json is the way back."""
        return {"job": self.job.to_json(), "settings": asdict(self.settings)}

    def backend(self, stack: str) -> str:
        """Return the backend of this run with a stack of that backend. Raises ValueError where it cannot be had.

        The inventory's is for jobs that leave it open and whose launcher and stack have it. Ranks of inference form no
        group: theirs is the one without communication cores and libraries of its own, which every stack has.
        """
        if not self.job.of_kind().communicates:
            return "gloo"
        launcher = LAUNCHERS[self.job.launcher]
        if self.job.backend == "auto" and self.settings.backend != "auto":
            with contextlib.suppress(ValueError):
                return launcher.backend(self.settings.backend, stack)
        return launcher.backend(self.job.backend, stack)

    def optimized(self, stack: Mapping[str, Any]) -> list[str]:
        """Return which parts of a step are optimized with an entry of the catalogue. Raises ValueError."""
        return optimizing.parts(self.job.optimize, self.job.kind, stack, inventory_optimize(self.settings.optimize))

    def cores(self, hosts: int) -> dict[str, int | str]:
        """Return the request of this run, on so many hosts, for a node's cores: the fields of allocation.Request but
        its backend. Raises ValueError as cores_of does.
        """
        exchanging = hosts if self.job.of_kind().needs_group else 0
        return {**cores_of(self.job, self.settings.cores), "exchanging_hosts": exchanging}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Run:
        """Return the run that to_json wrote."""
        return cls(Job.from_json(content["job"]), Settings(**content["settings"]))


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


def members(settings: Settings, hosts: Sequence[str]) -> list[str]:
    """Return the hosts that take part in a run, the head first: it launches the job even where it runs no rank."""
    return list(dict.fromkeys([settings.head, *hosts]))
