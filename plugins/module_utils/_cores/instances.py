# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Independent instances on a host, by their number or by the cores that each has: as settings of its allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import (
    CORES_PER_RESERVED_CORE,
    Request,
    allocate,
)
from ansible_collections.amx.cluster.plugins.module_utils._cores.candidates import digest
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology

CORES = "cores"


def of_host(
    topology: Topology,
    backend: str,
    numbers: Sequence[int | str] = (),
    threads: Sequence[int] = (),
    reserved_cores: int | str = "auto",
    threads_per_core: int | str = 1,
) -> list[dict[str, Any]]:
    """Return what each request comes to on a host, in their order.

    numbers: of instances, "auto" (one for each NUMA node) or "cores" (one for each core that is not reserved). threads:
    of an instance; there are as many as fit, and the cores that are left over go to the system. backend: of the job,
    whose ranks the instances are.

    Each is {name, ranks_per_node, reserved_cores, instances, threads, allocation, error}: `name` as requested, the next
    two for the job's fields, `allocation` a digest which is the same where the cores are, `error` why the host refuses
    it (then the others are None).
    """
    common: dict[str, Any] = {"backend": backend, "comm_cores": "auto", "threads_per_core": threads_per_core}
    results = []
    for number in numbers:
        wanted = _of_cores(topology, 1, reserved_cores)[0] if number == CORES else number
        results.append(
            _accepted(topology, _name(number), {**common, "ranks_per_node": wanted, "reserved_cores": reserved_cores})
        )
    for each in threads:
        name = f"threads_per_instance={each}"
        instances, spare = _of_cores(topology, each, reserved_cores)
        if not instances:
            error = f"{name} is more than the {len(topology.usable_cores)} usable cores of this host"
            results.append({**_nothing(name), "error": error})
            continue
        made = _accepted(topology, name, {**common, "ranks_per_node": instances, "reserved_cores": spare})
        results.append(made)
    return results


def common(hosts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the requests as all hosts can have them, those that come to the same cores everywhere once.

    hosts: {name: what of_host returns there}, for the same requests. A request that a host refuses has its error, with
    the host's name; so has one that comes to other settings on another host. `total` is the number of all instances.
    """
    results: list[dict[str, Any]] = []
    seen: set[tuple[str, ...]] = set()
    for place, first in enumerate(next(iter(hosts.values()), [])):
        each = {host: accepted[place] for host, accepted in hosts.items()}
        wrong = [f"{host}: {answer['error']}" for host, answer in each.items() if answer["error"]]
        settings = {(answer["ranks_per_node"], answer["reserved_cores"]) for answer in each.values()}
        if not wrong and len(settings) > 1:
            numbers = ", ".join(f"{answer['instances']} on {host}" for host, answer in each.items())
            wrong = [f"{first['name']} comes to other numbers of instances, {numbers}: give a number that all can have"]
        if wrong:
            results.append({**_nothing(first["name"]), "total": None, "error": "; ".join(wrong[:3])})
            continue
        allocations = tuple(answer["allocation"] for answer in each.values())
        if allocations not in seen:
            seen.add(allocations)
            results.append({**first, "total": sum(answer["instances"] for answer in each.values())})
    return results


def _name(number: int | str) -> str:
    return f"instances_per_node={number}"


def _nothing(name: str) -> dict[str, Any]:
    return {
        "name": name,
        **dict.fromkeys(("ranks_per_node", "reserved_cores", "instances", "threads", "allocation")),
        "error": "",
    }


def _accepted(topology: Topology, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        made = allocate(topology, Request(**settings))
    except ValueError as error:
        return {**_nothing(name), "error": str(error)}
    return {
        "name": name,
        "ranks_per_node": settings["ranks_per_node"],
        "reserved_cores": settings["reserved_cores"],
        "instances": len(made.ranks),
        "threads": made.threads_per_rank,
        "allocation": digest(made),
        "error": "",
    }


def _of_cores(topology: Topology, threads: int, reserved_cores: int | str) -> tuple[int, int]:
    """Return how many instances of so many cores fit, none across NUMA nodes where one fits in each, and what is left.

    Where reserved_cores is auto, large NUMA nodes keep a core for the system, as in any allocation.
    """
    sizes = Counter(core.node for core in topology.usable_cores)
    total = sum(sizes.values())
    keep = int(reserved_cores) if reserved_cores != "auto" else 0
    free = {
        node: size - (reserved_cores == "auto" and size >= CORES_PER_RESERVED_CORE and size > threads)
        for node, size in sizes.items()
    }
    inside = sum(size // threads for size in free.values())
    whole = all(size >= threads for size in free.values())
    instances = inside if whole else total // threads
    while instances and instances * threads + keep > total:
        instances -= 1
    return instances, total - instances * threads
