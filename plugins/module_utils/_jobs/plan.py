# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a job as plain data: what every rank of it is set to. planning.py makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure, Watch
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPTIMIZE

OPTIONAL = ("measure", "project", "fabric", "ipex", "memory", "notices")
"""Fields of a plan that plan.json has where they are set."""


@dataclass(frozen=True)
class Rank:
    """A rank of a plan, or of a host's allocation. The module core_allocation documents the fields.

    rank: its number, in a plan over the whole group. env: what it is set to beside its host's. memory: what
    Memory.policy returned.
    """

    rank: int = 0
    numa_nodes: list[int] = field(default_factory=list)
    sockets: list[int] = field(default_factory=list)
    compute_cpus: list[int] = field(default_factory=list)
    comm_cpus: list[int] = field(default_factory=list)
    domain_cpus: list[int] = field(default_factory=list)
    domain_mask: str = ""
    env: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Host:
    """A host of a plan. env: what all its ranks are set to. first_rank: the number of its first rank in the group.

    map: the letters of its cores, as CoreMap.letters returns them.
    """

    host: str
    address: str = ""
    interface: str = ""
    isa: str = ""
    amx: str = ""
    env: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    threads_per_rank: int = 0
    map: dict[str, Any] = field(default_factory=lambda: {"rows": [], "offline": ""})
    warnings: list[str] = field(default_factory=list)
    first_rank: int = 0


@dataclass(frozen=True)
class Fabric:
    """The fabric of a plan that is not plain tcp: its name, what is to be said about it, and what selects it."""

    name: str
    note: str = ""
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan(Document):
    """Settings of each rank of a job: plan.json in the job directory, which programs of the hosts read.

    launcher: Launcher.for_ranks. secrets: names of further variables of all ranks, each with where its value comes
    from. stack: the name of the catalogue's entry. head, head_interface, shared_directory: as run.Settings has them.
    environment: the path of the virtual environment, the same on every host. runtime: the directory of the programs
    that run ranks, likewise. bindings: the directory of the MPI
    run time; mpi: what the stack sets for it. hosts: in the order of the hostfile. project: as run.Settings has it.
    ipex: what ipex.describe returned. memory: what memory_check.check returned. notices: as run.Settings has it.
    """

    job: str = ""
    kind: str = ""
    launcher: dict[str, Any] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    secrets: dict[str, str] = field(default_factory=dict)
    stack: str = ""
    backend: str = ""
    precision: str = ""
    head: str = ""
    head_interface: str = ""
    shared_directory: bool = False
    master_addr: str = ""
    environment: str = ""
    runtime: str = ""
    bindings: str = ""
    mpi: dict[str, str] = field(default_factory=dict)
    env_launcher: dict[str, str] = field(default_factory=dict)
    world_size: int = 0
    hosts: list[Host] = field(default_factory=list)
    measure: Measure | None = None
    project: dict[str, Any] = field(default_factory=dict)
    fabric: Fabric | None = None
    ipex: str = ""
    memory: dict[str, Any] = field(default_factory=dict)
    notices: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plan.json has it: without OPTIONAL ones where it has none."""
        return {name: value for name, value in super().to_json().items() if value or name not in OPTIONAL}

    def optimized(self) -> list[str]:
        """Return the parts of a step that are computed faster than PyTorch does: see optimizing.py."""
        set_to = self.hosts[0].env.get(OPTIMIZE, "") if self.hosts else ""
        return [part for part in set_to.split(",") if part]

    def on_hosts(self, names: Sequence[str]) -> Plan:
        """Return the plan for those of its hosts that are named, in its own order, its ranks counted anew.

        Each host's allocation stays as it is. Raises ValueError when none is left.
        """
        hosts = [host for host in self.hosts if host.host in names]
        if not hosts:
            raise ValueError("no host is left to run the job on")
        return numbered(replace(self, master_addr=hosts[0].address, hosts=hosts))


def numbered(plan: Plan) -> Plan:
    """Return the plan with its ranks counted over the whole group, and every host set to the first one's address."""
    hosts, size = [], 0
    for host in plan.hosts:
        ranks = [replace(rank, rank=size + place) for place, rank in enumerate(host.ranks)]
        env = {**host.env, "MASTER_ADDR": plan.master_addr}
        hosts.append(replace(host, first_rank=size, ranks=ranks, env=env))
        size += len(ranks)
    return replace(plan, world_size=size, hosts=hosts)
