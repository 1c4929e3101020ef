# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which settings of cores are worth a trial on some hosts: those that every host accepts, each allocation once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import (
    USUAL_COMM_CORES,
    Allocation,
    Request,
    allocate,
)
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology

# Communication cores of each rank, the backend's usual number first.
MOST_COMM_CORES = 2
MOST_RANKS = 16
SETTINGS = ("ranks_per_node", "backend", "comm_cores", "reserved_cores", "threads_per_core")
Settings = dict[str, Any]


def of_host(
    topology: Topology, backends: Sequence[str], default: Mapping[str, Any], vary: Sequence[str] = SETTINGS
) -> list[dict[str, Any]]:
    """Return the settings that a host accepts, {settings, allocation}, `default` first; none where it does not fit.

    settings: the fields of Request. allocation: the same for settings that come to the same on this host. vary: the
    settings that may differ from the default's.
    """
    candidates: list[dict[str, Any]] = []
    kept = {name: default[name] for name in SETTINGS if name not in vary}
    for settings in [dict(default), *({**each, **kept} for each in _grid(topology, backends))]:
        try:
            made = allocate(topology, Request(**settings))
        except ValueError:
            if not candidates:
                return []  # the default
            continue
        candidates.append({"settings": settings, "allocation": digest(made)})
    return candidates


def common(hosts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Settings]:
    """Return the settings that all hosts accept, the default first, those with the same allocations on all once.

    hosts: {name: what of_host returns there}, with the same default. What is nearer to the first one comes first.
    """
    if not hosts or not all(hosts.values()):
        return []
    accepted = [{_key(offer["settings"]): offer["allocation"] for offer in offers} for offers in hosts.values()]
    default, *others = next(iter(hosts.values()))
    seen: set[tuple[str, ...]] = set()
    candidates: list[Settings] = []
    for offer in [default, *others]:
        key = _key(offer["settings"])
        if all(key in host for host in accepted):
            allocations = tuple(host[key] for host in accepted)
            if allocations not in seen:
                seen.add(allocations)
                candidates.append(dict(offer["settings"]))
    return candidates


def digest(made: Allocation) -> str:
    """Return what tells one allocation from another: which CPUs compute and which communicate, and the backend."""
    ranks = [[rank.compute_cpus, rank.comm_cpus, rank.domain_cpus] for rank in made.ranks]
    return hashlib.sha256(json.dumps([made.backend, ranks]).encode()).hexdigest()[:16]


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _grid(topology: Topology, backends: Sequence[str]) -> list[Settings]:
    """Return all combinations for a topology, those with few changes of an allocation without extras first."""
    cores = topology.usable_cores
    nodes, sockets = len({core.node for core in cores}), len({core.socket for core in cores})
    counts = {1, 2, 4, nodes, sockets, 2 * nodes, 4 * nodes}
    ranks = sorted(count for count in counts if count <= min(len(cores), MOST_RANKS))
    reserved = sorted({0, 1 if len(cores) > 2 else 0, nodes if len(cores) >= 10 * nodes else 0})
    threads = [1, 2] if topology.threads_per_core > 1 else [1]
    comm_cores = {
        backend: [usual, *(number for number in range(MOST_COMM_CORES + 1) if number != usual)]
        for backend, usual in USUAL_COMM_CORES.items()
    }
    return [
        {
            "ranks_per_node": rank,
            "backend": backend,
            "comm_cores": comm_cores[backend][place],
            "reserved_cores": spare,
            "threads_per_core": thread,
        }
        for thread in threads
        for place in range(MOST_COMM_CORES + 1)
        for spare in reserved
        for rank in ranks
        for backend in backends
    ]
