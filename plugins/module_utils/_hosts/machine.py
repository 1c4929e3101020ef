# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes, memory and kernel settings of a host that decide how fast ranks run there.

Read from /proc and /sys (Documentation/admin-guide/mm/numaperf.rst, pm/cpufreq.rst and pm/cpuidle.rst of the kernel).
A node with memory and no CPUs is how a Xeon Max in flat mode shows its HBM, and how others show memory on CXL; in cache
mode, nodes have a memory-side cache.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus, packages
from ansible_collections.amx.cluster.plugins.module_utils._text import count, size

NONE = "-"
XEON_MAX = re.compile(r"Xeon.*\bMax\b")
HBM_OF_SOCKET = 64 * 2**30
"""Of every Xeon Max: one that has no more memory than this has no other."""
# A wait for another host takes tens of microseconds (docs/performance.md): waking up faster than this is not shown.
SHALLOW_US = 10


@dataclass(frozen=True)
class Machine:
    """Hardware and kernel settings of a host: texts, or NONE."""

    nodes: str
    special_memory: str
    numa_balancing: str
    huge_pages: str
    governor: str
    idle: str


def read(root: Path) -> dict[str, Any]:
    """Read this host, or the machine whose sys and proc were captured below `root`; what there is no file of is empty.

    Returns nodes ([{node, socket (-1 for none), cpus, memory_bytes, cache_bytes}]), sockets, numa_balancing,
    zone_reclaim, huge_pages, cpufreq_driver, governors and preferences (of energy and performance, EPP; {value: CPUs}),
    idle_driver, and of the deepest idle state that is enabled idle_state and idle_us, which waking up from it takes.
    """
    cpus = root / "sys/devices/system/cpu"
    frequencies = list(cpus.glob("cpu[0-9]*/cpufreq"))
    chosen = re.search(r"\[(\S+)\]", _text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    latency, state = max(
        (
            (_number(each / "latency"), _text(each / "name"))
            for each in next(iter(sorted(cpus.glob("cpu[0-9]*/cpuidle"))), root / "none").glob("state*")
            if _text(each / "disable") != "1"
        ),
        default=(0, ""),
    )
    return {
        "nodes": sorted(
            (_node(path, cpus) for path in root.glob("sys/devices/system/node/node[0-9]*")),
            key=lambda node: node["node"],
        ),
        "sockets": len(set(packages(root).values())),
        "numa_balancing": _text(root / "proc/sys/kernel/numa_balancing"),
        "zone_reclaim": _text(root / "proc/sys/vm/zone_reclaim_mode"),
        "huge_pages": chosen.group(1) if chosen else "",
        "cpufreq_driver": next(filter(None, (_text(each / "scaling_driver") for each in frequencies)), ""),
        "governors": _values(frequencies, "scaling_governor"),
        "preferences": _values(frequencies, "energy_performance_preference"),
        "idle_driver": _text(cpus / "cpuidle/current_driver"),
        "idle_state": state,
        "idle_us": latency,
    }


def described(seen: Mapping[str, Any], model: str) -> Machine:
    """Return what is shown of a host. seen: what `read` returned. model: of its CPU."""
    preferences = f", EPP {_counted(seen['preferences'])}" if seen["preferences"] else ""
    driver = f" ({seen['cpufreq_driver']}{preferences})" if seen["cpufreq_driver"] else ""
    return Machine(
        _clusters(seen["nodes"], seen["sockets"], model),
        _special(seen["nodes"], model),
        {"": NONE, "0": "off"}.get(seen["numa_balancing"], f"on ({seen['numa_balancing']})"),
        seen["huge_pages"] or NONE,
        f"{_counted(seen['governors'])}{driver}" if seen["governors"] else NONE,
        f"{seen['idle_state']}, {seen['idle_us']} us ({seen['idle_driver']})" if seen["idle_us"] > SHALLOW_US else NONE,
    )


def plain(machine: Machine) -> bool:
    """Return whether there is nothing about a host that its owner could choose otherwise, as of most virtual ones."""
    return (
        machine.nodes.endswith(("-", ", 1 node")) and machine.special_memory == machine.governor == machine.idle == NONE
    )


def governor(seen: Mapping[str, Any]) -> str:
    """Return the governor, the driver and the EPP in words."""
    return described(seen, "").governor


def _clusters(nodes: list[dict[str, Any]], packages: int, model: str) -> str:
    """Return sockets and their nodes, with the name that the BIOS has for dividing a socket."""
    sockets = Counter(node["socket"] for node in nodes if node["cpus"])
    if not sockets:
        return NONE
    if packages > len(sockets):  # a node has CPUs of several, as before there were memory controllers in CPUs
        return f"{packages} sockets, {count(sum(sockets.values()), 'node')}"
    each = sorted(set(sockets.values()))
    name = ""
    if len(each) == 1 and sockets.keys() != {-1} and sum(sockets.values()) > 1:
        name = f" (NPS{each[0]})" if "EPYC" in model else ""
        if "Xeon" in model:
            name = " (SNC off)" if each[0] == 1 else f" (SNC{each[0]})"
    many = " each" if len(sockets) > 1 else ""
    nodes_of = " or ".join(map(str, each))
    return f"{count(len(sockets), 'socket')}, {nodes_of} {'node' if each == [1] else 'nodes'}{many}{name}"


def _special(nodes: list[dict[str, Any]], model: str) -> str:
    """Return which memory is not that of a node with CPUs, or lies before it as a cache."""
    alone = [node for node in nodes if node["memory_bytes"] and not node["cpus"]]
    cache = sum(node["cache_bytes"] for node in nodes)
    if alone:
        numbers = format_cpus(node["node"] for node in alone)
        where = (
            f"{'node' if len(alone) == 1 else 'nodes'} {numbers}, {size(sum(node['memory_bytes'] for node in alone))}"
        )
        return f"HBM, flat ({where})" if XEON_MAX.search(model) else f"without CPUs ({where})"
    if cache:
        return f"{'HBM as' if XEON_MAX.search(model) else 'behind a'} cache ({size(cache)})"
    if XEON_MAX.search(model) and nodes:
        total = sum(node["memory_bytes"] for node in nodes)
        only = total <= HBM_OF_SOCKET * len({node["socket"] for node in nodes})
        return "HBM only" if only else "HBM not shown (cache, or kept for DAX)"
    return NONE


def _node(path: Path, cpus: Path) -> dict[str, Any]:
    mask = int(_text(path / "cpumap").replace(",", "") or "0", 16)
    first = (mask & -mask).bit_length() - 1
    memory = re.search(r"MemTotal:\s+(\d+) kB", _text(path / "meminfo"))
    return {
        "node": int(path.name[len("node") :]),
        "socket": _number(cpus / f"cpu{first}/topology/physical_package_id", -1),
        "cpus": bin(mask).count("1"),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else 0,
        "cache_bytes": sum(_number(file) for file in path.glob("memory_side_cache/index*/size")),
    }


def _values(directories: list[Path], name: str) -> dict[str, int]:
    return dict(Counter(filter(None, (_text(each / name) for each in directories))))


def _counted(values: Mapping[str, int]) -> str:
    """Return values, and how many CPUs have each where they differ."""
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(f"{value} on {count(number, 'CPU')}" for value, number in sorted(values.items()))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):  # such as that of a CPU that is offline
        return ""


def _number(path: Path, otherwise: int = 0) -> int:
    text = _text(path)
    return int(text) if re.fullmatch(r"-?\d+", text) else otherwise
