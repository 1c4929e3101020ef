"""Machines with NUMA nodes and kernel settings, as /sys and /proc trees of few files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def captured(
    root: Path,
    nodes: Sequence[tuple[int | None, int]],
    files: Mapping[str, str] | None = None,
    balancing: str = "",
    huge: str = "",
) -> Path:
    """Write /sys and /proc of a machine below `root`. nodes: the socket and the GiB of each; those of no socket (None)
    have no CPUs, the others one. files: what the directory of each CPU has besides."""
    written = {"sys/devices/system/cpu/cpuidle/current_driver": "intel_idle"}
    cpu = 0
    for node, (socket, gib) in enumerate(nodes):
        written[f"sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal:  {gib * 2**20} kB"
        written[f"sys/devices/system/node/node{node}/cpumap"] = "00000000," + (
            "00000000" if socket is None else f"{1 << cpu:08x}"
        )
        if socket is not None:
            own = {"topology/physical_package_id": str(socket), **(files or {})}
            written.update({f"sys/devices/system/cpu/cpu{cpu}/{name}": text for name, text in own.items()})
            cpu += 1
    if balancing:
        written["proc/sys/kernel/numa_balancing"] = balancing
    if huge:
        written["sys/kernel/mm/transparent_hugepage/enabled"] = huge
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root
