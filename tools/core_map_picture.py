"""The picture of what each core of a server does, for README.md and docs/core_allocation.md."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Cpu, build

FILE = Path(__file__).resolve().parent.parent / "docs/images/cores.svg"
SOCKETS, NODES, CORES = 2, 4, 14  # NUMA nodes of each socket, cores of each node
TITLE = "2 sockets, 8 NUMA nodes of 14 cores: 8 ranks with 13 threads each"


def text() -> str:
    """Return the plan for a made-up server, of the size of those with Sapphire Rapids, as SVG."""
    cores = SOCKETS * NODES * CORES
    cpus = [
        Cpu(thread * cores + core, core, core // (NODES * CORES), core // CORES, True)
        for thread in range(2)
        for core in range(cores)
    ]
    return CoreMap.of(allocate(build(tuple(cpus)), Request(backend="mpi"))).svg(TITLE)
