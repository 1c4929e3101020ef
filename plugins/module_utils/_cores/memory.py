# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From which NUMA nodes the memory of a rank comes: a machine's nodes and a request become a memory policy.

A policy is what set_mempolicy(2) takes, and {} leaves pages to the kernel, which takes the node of the CPU that
writes to them first. Ranks apply it by runtime/amx_cluster/rank.py.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus, parse_cpus
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document

LOCAL, INTERLEAVE, HBM, ANY = VALUES = ("local", "interleave", "hbm", "any")

SET_MEMPOLICY = 238  # on x86-64
MODES = {"preferred": 1, "interleave": 3, "preferred_many": 5}
"""Modes of linux/mempolicy.h by the names that the kernel's documentation has; rank.py has the same."""

_NODES = "sys/devices/system/node"

HBM_DISTANCE = 13
"""From a node with CPUs to the HBM of the same package; memory on CXL and Optane is 14 or more away."""


@dataclass(frozen=True)
class Node:
    """A NUMA node that has memory. distances: to each node, by number. bandwidth: in MB/s, 0 where no HMAT has it."""

    number: int
    cpus: bool
    distances: dict[int, int] = field(default_factory=dict)
    bandwidth: int = 0


@dataclass(frozen=True)
class Memory(Document):
    """The nodes whose memory a process may use, why it cannot choose among them, and whether it may prefer several."""

    nodes: tuple[Node, ...] = ()
    refused: str = ""
    many: bool = True

    def hbm(self) -> tuple[Node, ...]:
        """Return the nodes of high-bandwidth memory: without CPUs, and faster than, or as near as, HBM can be."""
        return tuple(node for node in self.nodes if not node.cpus and self._is_hbm(node))

    def _is_hbm(self, node: Node) -> bool:
        with_cpus = [other for other in self.nodes if other.cpus]
        nearest = min(with_cpus, key=lambda other: other.distances.get(node.number, 255), default=None)
        if nearest is None:
            return False
        if node.bandwidth and nearest.bandwidth:
            return node.bandwidth > nearest.bandwidth
        return nearest.distances.get(node.number, 255) <= HBM_DISTANCE

    def policy(self, wanted: str, own: Sequence[int]) -> tuple[dict[str, Any], str]:
        """Return ({policy, nodes}, why there is none) of a rank. own: the nodes of its cores.

        There is neither where nothing was requested or there is no choice. Raises ValueError where `hbm` or
        `interleave` cannot be had: who sets them expects them, and only `local` is a default.
        """
        if wanted == HBM and not self.hbm():
            raise ValueError("memory: hbm needs NUMA nodes of HBM, and this host has none: set memory to local")
        if wanted == ANY or len(self.nodes) < 2:
            return {}, ""
        if self.refused:
            return _without(wanted, self.refused)
        if wanted == INTERLEAVE:
            return {"policy": "interleave", "nodes": [node.number for node in self.nodes if node.cpus]}, ""
        nodes = self._nearest_hbm(own) if wanted == HBM else [n.number for n in self.nodes if n.number in own]
        if len(nodes) > 1 and not self.many:
            return _without(wanted, "this kernel, older than 5.15, cannot prefer the memory of several NUMA nodes")
        return ({"policy": "preferred_many" if len(nodes) > 1 else "preferred", "nodes": nodes} if nodes else {}), ""

    def _nearest_hbm(self, own: Sequence[int]) -> list[int]:
        """Return the nodes of HBM that are nearest to any of these."""
        hbm = [node.number for node in self.hbm()]
        of_own = [node.distances for node in self.nodes if node.number in own]
        nearest = {number for far in of_own for number in hbm if far[number] == min(far[other] for other in hbm)}
        return sorted(nearest) or hbm


def _without(wanted: str, reason: str) -> tuple[dict[str, Any], str]:
    if wanted != LOCAL:
        raise ValueError(f"memory: {wanted} cannot be set, because {reason}: set memory to local")
    return {}, f"memory is left to the kernel, because {reason}"


def describe(policy: Mapping[str, Any]) -> str:
    """Return a policy as plans show it, such as `prefers 0`."""
    if not policy:
        return "-"
    verb = "interleaves" if policy["policy"] == "interleave" else "prefers"
    return f"{verb} {format_cpus(policy['nodes'])}"


def by_node(numa_maps: str) -> dict[int, int]:
    """Return the bytes of a process that belong to no file, by NUMA node. numa_maps: as proc(5) has it.

    Mapped files are left out: their pages are where the page cache had them before.
    """
    totals: dict[int, int] = {}
    for line in numa_maps.splitlines():
        if " anon=" in line and " file=" not in line:
            size = re.search(r" kernelpagesize_kB=(\d+)", line)
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                totals[int(node)] = totals.get(int(node), 0) + int(pages) * 1024 * (int(size.group(1)) if size else 4)
    return dict(sorted(totals.items()))


def huge_pages(smaps_rollup: str) -> int:
    """Return the bytes of a process in transparent huge pages. smaps_rollup: as proc(5) has it."""
    match = re.search(r"^AnonHugePages:\s+(\d+) kB$", smaps_rollup, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def read(root: Path) -> Memory:
    """Return the memory of this machine, or of the one whose /sys and /proc were captured below `root`.

    This machine's kernel is asked whether it sets policies; the policy of this thread is the default afterwards.
    """
    nodes = _nodes(root)
    if root.resolve() != Path("/") or len(nodes) < 2:
        return Memory(nodes)
    refused, many = probe([node.number for node in nodes])
    return Memory(nodes, refused, many)


def total(root: Path) -> int:
    """Return the bytes that a process may use: the machine's memory, or the smallest limit of its control groups.

    Left out are pages that were reserved for hugetlbfs, and NUMA nodes that a cpuset forbids. 0 where nothing is known.
    """
    seen = dict(re.findall(r"^(MemTotal|Hugetlb):\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE))
    amounts = [(int(seen["MemTotal"]) - int(seen.get("Hugetlb", 0))) * 1024] if "MemTotal" in seen else []
    online, usable = _usable(root)
    if usable and usable < online:
        amounts.append(sum(_node_bytes(root, number) for number in usable))
    for line in _text(root / "proc/self/cgroup").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        # A container's own group is mounted at the top, whatever its path outside is.
        for place in (Path(path), *Path(path).parents):
            limit = _text(base / str(place).lstrip("/") / name).strip()
            amounts += [int(limit)] if limit.isdigit() else []
    return min(amounts, default=0)


def probe(nodes: Sequence[int]) -> tuple[str, bool]:
    """Ask the kernel: (why it sets no policy, whether it knows one that prefers several nodes)."""
    if os.uname().machine != "x86_64":
        return f"policies are not set on {os.uname().machine}", False
    mask = (ctypes.c_ulong * (max(nodes) // 64 + 2))()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    call = ctypes.CDLL(None, use_errno=True).syscall
    size = ctypes.c_ulong(64 * len(mask))
    if call(ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(0), None, ctypes.c_ulong(0)):
        code = ctypes.get_errno()
        container = " (a container needs the capability SYS_NICE for it)" if code == errno.EPERM else ""
        return f"set_mempolicy is refused: {os.strerror(code)}{container}", False
    many = not call(ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(MODES["preferred_many"]), mask, size)
    call(ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(0), None, ctypes.c_ulong(0))
    return "", many


def _nodes(root: Path) -> tuple[Node, ...]:
    online, usable = _usable(root)
    nodes = []
    for number in sorted(usable):
        place = root / _NODES / f"node{number}"
        if _node_bytes(root, number):
            far = dict(zip(sorted(online), map(int, _text(place / "distance").split())))
            speed = _text(place / "access0/initiators/read_bandwidth").strip()
            cpus = bool(_text(place / "cpulist").strip())
            nodes.append(Node(number, cpus, far, int(speed) if speed.isdigit() else 0))
    return tuple(nodes)


def _usable(root: Path) -> tuple[frozenset[int], frozenset[int]]:
    """Return (the NUMA nodes that are online, those of them that the process may use)."""
    online = frozenset(parse_cpus(_text(root / _NODES / "online")))
    # Absent where the kernel has no cpusets or the tree no process: then there is nothing that forbids a node.
    allowed = re.search(r"^Mems_allowed_list:\s*(\S+)$", _text(root / "proc/self/status"), re.MULTILINE)
    return online, online & parse_cpus(allowed.group(1)) if allowed else online


def _node_bytes(root: Path, number: int) -> int:
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(root / _NODES / f"node{number}" / "meminfo"))
    return int(match.group(1)) * 1024 if match else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").rstrip("\0")  # with which some kernels end a list of nodes
    except OSError:
        return ""
