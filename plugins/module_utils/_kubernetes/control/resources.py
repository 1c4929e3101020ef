# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that a pod requests of its node: all but the share of the kubelet and the system.

Requests are equal to limits and CPUs are whole numbers: that is the guaranteed quality of service, which the static CPU
manager requires for CPUs of a pod's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import quantities
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.quantities import GI, MI

# What kubelet and system keep: (of the next so many CPUs or GiB, this share), the last of all that is left. These are
# the steps that the large providers' nodes have (Google Kubernetes Engine, "Node sizes"; Azure's are similar).
CPU_STEPS = ((1, Fraction(6, 100)), (1, Fraction(1, 100)), (2, Fraction(5, 1000)), (None, Fraction(25, 10000)))
MEMORY_STEPS = (
    (4, Fraction(25, 100)),
    (4, Fraction(20, 100)),
    (8, Fraction(10, 100)),
    (112, Fraction(6, 100)),
    (None, Fraction(2, 100)),
)
# CPUs and bytes for what runs on every node besides: network and log agents, node exporters.
AGENT_CPUS, AGENT_MEMORY = Fraction(1, 2), 256 * MI
EVICTION = 100 * MI
"""The kubelet evicts pods when less memory than this is free (--eviction-hard)."""

# /dev/shm: for each rank the segments of its transport, and for each worker of its data loader the batches in flight.
SHM_OF_RANK, SHM_OF_WORKER, LEAST_SHM = 512 * MI, 256 * MI, GI


@dataclass(frozen=True)
class Resources:
    """Requests and limits of each pod: CPUs, and bytes of memory, of which /dev/shm may take `shm`."""

    cpus: int
    memory: int
    shm: int

    def of_container(self) -> dict[str, Any]:
        """Return them as a container has them."""
        amounts = {"cpu": str(self.cpus), "memory": quantities.memory(self.memory)}
        return {"requests": dict(amounts), "limits": dict(amounts)}


def share(amount: Fraction, steps: tuple[tuple[int | None, Fraction], ...]) -> Fraction:
    """Return the part of an amount that the steps keep."""
    kept, left = Fraction(0), amount
    for size, part in steps:
        taken = left if size is None else min(left, Fraction(size))
        kept, left = kept + taken * part, left - taken
    return kept


def reserved_cpus(cpus: int) -> int:
    """Return how many of a node's CPUs its kubelet, system and agents keep: whole ones, at least 1."""
    return max(1, math.ceil(share(Fraction(cpus), CPU_STEPS) + AGENT_CPUS))


def reserved_memory(memory: int) -> int:
    """Return how many bytes of a node's memory its kubelet, system and agents keep."""
    return math.ceil(share(Fraction(memory, GI), MEMORY_STEPS) * GI) + AGENT_MEMORY + EVICTION


def of_pod(cpus: int, memory: int, kept_cpus: int, kept_memory: int, shm: int) -> Resources:
    """Return what a pod requests of a node with so many CPUs and bytes, of which the node keeps some.

    shm: bytes of /dev/shm. Raises ValueError, with the numbers, where nothing is left, or less than /dev/shm needs.
    """
    left_cpus, left = cpus - kept_cpus, (memory - kept_memory) // MI * MI
    if left_cpus < 1:
        raise ValueError(
            f"cpus: {cpus} of a node, of which its kubelet and system keep {kept_cpus} (reserved_cpus), leave none for "
            "a pod: use larger nodes"
        )
    if left < MI:
        raise ValueError(
            f"memory: {quantities.memory(memory)} of a node, of which its kubelet and system keep "
            f"{quantities.memory(kept_memory)} (reserved_memory), leave none for a pod: use larger nodes"
        )
    if shm > left // 2:
        raise ValueError(
            f"shm: {quantities.memory(shm)} of /dev/shm is more than half of a pod's {quantities.memory(left)} of "
            "memory, and is taken from it: set shm in cluster_kubernetes lower, or use nodes with more memory"
        )
    return Resources(left_cpus, left, shm)


def shm_of_job(ranks_per_pod: int, workers: int, memory: int) -> int:
    """Return the bytes of /dev/shm for so many ranks with so many data loader workers each, of a pod's memory.

    At most a quarter of it, so that a small pod is not refused.
    """
    wanted = max(LEAST_SHM, ranks_per_pod * (SHM_OF_RANK + workers * SHM_OF_WORKER))
    return max(MI, min(wanted, memory // 4 // MI * MI))


def unfit(wanted: Resources, selector: Mapping[str, str], nodes: list[Mapping[str, Any]]) -> str:
    """Return why no node can take such a pod, with the numbers of each that the selector matches; empty if one can.

    nodes: as the API has them, with metadata.labels and status.allocatable.
    """
    matching = matching_nodes(selector, nodes)
    if not matching:
        labels = ", ".join(f"{key}={value}" for key, value in selector.items())
        return f"none of {len(nodes)} nodes has the labels {labels}: set node_selector in cluster_kubernetes"
    lines = []
    for node in matching:
        has = node["status"]["allocatable"]
        if number_of(has, "cpu") >= wanted.cpus and number_of(has, "memory") >= wanted.memory:
            return ""
        lines.append(f"{node['metadata']['name']} has {has.get('cpu')} CPUs and {has.get('memory')} of memory")
    return (
        f"a pod requests {wanted.cpus} CPUs and {quantities.memory(wanted.memory)} of memory, more than any node can "
        f"allocate: {'; '.join(lines)}: set cpus and memory in cluster_kubernetes to what nodes have"
    )


def matching_nodes(selector: Mapping[str, str], nodes: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the nodes that have all labels of a selector."""
    return [
        node
        for node in nodes
        if all(node["metadata"].get("labels", {}).get(key) == value for key, value in selector.items())
    ]


def room(wanted: Resources, selector: Mapping[str, str], nodes: list[Mapping[str, Any]]) -> dict[str, int]:
    """Return for how many such pods each matching node has room when nothing else runs there."""
    counts = {}
    for node in matching_nodes(selector, nodes):
        has = node["status"]["allocatable"]
        of_cpus, of_memory = number_of(has, "cpu") // wanted.cpus, number_of(has, "memory") // wanted.memory
        counts[str(node["metadata"]["name"])] = int(min(of_cpus, of_memory))
    return counts


def number_of(amounts: Mapping[str, Any], name: str) -> Fraction:
    """Return an amount of a node, 0 where it has none of that name."""
    return quantities.number(amounts.get(name, "0"))
