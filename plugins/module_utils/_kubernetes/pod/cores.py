# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs a pod really has, and what its ranks do with them: known in the pod alone, when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import described
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import NOT_ALLOWED, Topology, format_cpus

OWN, MOST, FLOATING = "own", "most of the node's", "floating"
# What of an allocation names CPUs: left out where a pod's CPUs are not its own.
PLACES = ("KMP_AFFINITY", "I_MPI_PIN_DOMAIN", "CCL_WORKER_AFFINITY", "AMX_CLUSTER_MPI_CPUS")


@dataclass(frozen=True)
class Cpus:
    """The CPUs on which a pod may run: how many, and of how many it may use the time (None: of all)."""

    allowed: int
    quota: float | None

    @property
    def state(self) -> str:
        """OWN: the static CPU manager gave it these. MOST: more than half of a node is its share, so that no other pod
        like it is there. FLOATING: the kernel moves it among CPUs that it shares with others."""
        if self.quota is None or self.allowed <= self.quota + 0.01:
            return OWN
        return MOST if self.quota > self.allowed / 2 else FLOATING


def cpus_of(topology: Topology, quota: float | None) -> Cpus:
    """Return the CPUs of a pod. topology, quota: as topology.read and topology.cpu_quota return them in it."""
    return Cpus(len(allowed(topology)), quota)


def allowed(topology: Topology) -> list[int]:
    """Return the CPUs on which the processes of a pod may run."""
    forbidden = dict(topology.excluded).get(NOT_ALLOWED, ())
    return sorted(cpu.number for cpu in topology.cpus if cpu.online and cpu.number not in forbidden)


def warning(cpus: Cpus, declared: int, ranks_per_pod: int) -> list[str]:
    """Return what a person should know of the CPUs of a pod. declared: the ranks that its object has."""
    warnings = []
    if cpus.state == FLOATING:
        warnings.append(
            f"this pod floats: it may use the time of {cpus.quota:g} CPUs, on any of {cpus.allowed}; its ranks are not "
            "pinned and share caches and cores with other pods. Set cpuManagerPolicy: static in the kubelet's "
            "configuration for CPUs of its own"
        )
    elif cpus.state == MOST:
        warnings.append(
            f"this pod may use the time of {cpus.quota:g} CPUs, on any of {cpus.allowed}: its ranks are pinned, and "
            "the system's processes run on the same CPUs. Set cpuManagerPolicy: static in the kubelet's configuration "
            "for CPUs of its own"
        )
    if declared != ranks_per_pod:
        warnings.append(
            f"this pod starts {ranks_per_pod} rank(s) and its object declares {declared}: set numa_nodes in "
            "cluster_kubernetes to the number of NUMA nodes that the CPUs of a pod are of"
        )
    return warnings


def allocate_pod(topology: Topology, request: Request, cpus: Cpus) -> dict[str, Any]:
    """Return the allocation of a pod, as the module core_allocation returns that of a host.

    Where the pod floats, its ranks have as many threads as it has CPU time for, on any of its CPUs. Raises ValueError
    as allocation.allocate does.
    """
    result = described(allocate(topology, request))
    if cpus.state != FLOATING:
        return result
    everywhere = {"domain_cpus": allowed(topology), "comm_cpus": []}
    ranks = [{**rank, "env": _without_places(rank["env"]), **everywhere} for rank in result["ranks"]]
    # libiomp5 would else bind threads to the cores in the order in which it finds them.
    env = {**_without_places(result["env"]), "KMP_AFFINITY": "disabled"}
    del env["KMP_HW_SUBSET"]
    return {**result, "ranks": ranks, "env": env, "warnings": []}


def _without_places(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in PLACES}


def describe(cpus: Cpus, made: Mapping[str, Any], topology: Topology) -> str:
    """Return a line on the CPUs and the ranks of a pod."""
    own = format_cpus(cpu for core in topology.usable_cores for cpu in core.cpus)
    used = f"any of {cpus.allowed}" if cpus.state == FLOATING else own
    limit = "" if cpus.quota is None else f", time of {cpus.quota:g}"
    ranks = made["ranks_per_node"]
    return (
        f"CPUs {used} ({cpus.state}{limit}): {ranks} rank(s) of {made['threads_per_rank']} thread(s), "
        f"{made['comm_cores']} communication core(s) each, {len(made['system_cpus'])} CPU(s) for the system"
    )
