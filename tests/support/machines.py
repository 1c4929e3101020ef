"""Machines that tests make up: as CPUs, as the output of any lscpu, and as /sys and /proc trees.

A tree is read by `lscpu --sysroot` and, as HWLOC_FSROOT, by hwloc and with it Intel MPI.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Cpu, format_cpus

NUMBERINGS = ("siblings last", "siblings adjacent", "interleaved", "shuffled")


@dataclass(frozen=True)
class Place:
    """Place of a CPU: its core (numbered over the machine), the core's socket and NUMA node, its place in the core."""

    socket: int
    node: int
    core: int
    thread: int
    online: bool = True


@dataclass(frozen=True)
class Machine:
    """`places[n]` is where CPU n is; `allowed` are the CPUs of the cpuset that a process is in, None for no cpuset."""

    places: tuple[Place, ...]
    memory_nodes: tuple[int, ...] = ()
    isolated: frozenset[int] = frozenset()
    allowed: frozenset[int] | None = None

    def confined(self, allowed: Iterable[int]) -> Machine:
        """The same machine seen by a process in a cpuset of these CPUs."""
        return replace(self, allowed=frozenset(allowed))

    def without(self, offline: Iterable[int]) -> Machine:
        """The same machine with these CPUs offline."""
        out = set(offline)
        places = (replace(place, online=place.online and cpu not in out) for cpu, place in enumerate(self.places))
        return replace(self, places=tuple(places))

    @property
    def online(self) -> frozenset[int]:
        """The numbers of the CPUs that are online."""
        return frozenset(cpu for cpu, place in enumerate(self.places) if place.online)

    def cpus(self) -> tuple[Cpu, ...]:
        """Return what a correct reading of this machine gives."""
        return tuple(
            Cpu(cpu, place.core, place.socket, place.node, True) if place.online else Cpu(cpu, None, None, None, False)
            for cpu, place in enumerate(self.places)
        )

    def lscpu(self, version: str) -> str:
        """Return what `lscpu --json --extended=CPU,NODE,SOCKET,CORE,ONLINE` of a util-linux version prints.

        2.32: text; 2.37: numbers, and a bare dash for what is unknown; 2.39: null for that.
        """
        rows: list[dict[str, Any]] = []
        for cpu in self.cpus():
            where = {"cpu": cpu.number, "node": cpu.node, "socket": cpu.socket, "core": cpu.core}
            if version == "2.32":
                row: dict[str, Any] = {key: "-" if value is None else str(value) for key, value in where.items()}
                rows.append({**row, "online": "yes" if cpu.online else "no"})
            else:
                rows.append({**where, "online": cpu.online})
        text = json.dumps({"cpus": rows}, indent=3)
        return text.replace(": null", ": -") if version == "2.37" else text

    def write(self, root: Path) -> Path:
        """Write the machine's /sys and /proc below `root`; returns it."""
        system = root / "sys/devices/system"
        everything = range(len(self.places))
        for name, cpus in (("possible", everything), ("present", everything), ("online", self.online)):
            _write(system / "cpu" / name, format_cpus(cpus))
        _write(system / "cpu/offline", format_cpus(set(everything) - self.online))
        _write(system / "cpu/isolated", format_cpus(self.isolated))
        _write(system / "cpu/kernel_max", "8191")
        for cpu, place in enumerate(self.places):
            path = system / f"cpu/cpu{cpu}"
            _write(path / "online", str(int(place.online)))
            if place.online:
                self._write_topology(path / "topology", place)
        self._write_nodes(system / "node")
        self._write_proc(root / "proc")
        return root

    def _write_topology(self, directory: Path, place: Place) -> None:
        core = [cpu for cpu in self.online if self.places[cpu].core == place.core]
        socket = [cpu for cpu in self.online if self.places[cpu].socket == place.socket]
        # As in real machines, core_id is unique within a socket only.
        first = min(other.core for other in self.places if other.socket == place.socket)
        _write(directory / "core_id", str(place.core - first))
        _write(directory / "physical_package_id", str(place.socket))
        for name, cpus in (
            ("thread_siblings", core),
            ("core_cpus", core),
            ("core_siblings", socket),
            ("package_cpus", socket),
        ):
            _write(directory / name, self._mask(cpus))
            _write(directory / f"{name}_list", format_cpus(cpus))

    def _write_nodes(self, directory: Path) -> None:
        with_cpus = {self.places[cpu].node for cpu in self.online}
        nodes = sorted(with_cpus.union(self.memory_nodes))
        for name, members in (
            ("online", nodes),
            ("possible", nodes),
            ("has_memory", nodes),
            ("has_cpu", sorted(with_cpus)),
        ):
            _write(directory / name, format_cpus(members))
        for node in nodes:
            cpus = [cpu for cpu in self.online if self.places[cpu].node == node]
            _write(directory / f"node{node}/cpumap", self._mask(cpus))
            _write(directory / f"node{node}/cpulist", format_cpus(cpus))
            _write(
                directory / f"node{node}/meminfo",
                f"Node {node} MemTotal: 16777216 kB\nNode {node} MemFree: 16777216 kB",
            )
            _write(directory / f"node{node}/distance", " ".join("10" if other == node else "20" for other in nodes))

    def _write_proc(self, directory: Path) -> None:
        blocks = [
            f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
            f"model name\t: Made-up Xeon\nphysical id\t: {self.places[cpu].socket}\nflags\t\t: fpu ht lm\n"
            for cpu in sorted(self.online)
        ]
        _write(directory / "cpuinfo", "\n".join(blocks))
        mounts = ["sysfs /sys sysfs rw 0 0", "proc /proc proc rw 0 0"]
        if self.allowed is not None:
            mounts.append("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0")
            _write(directory / "self/cgroup", "0::/job")
            _write(directory / "self/status", f"Name:\tjob\nCpus_allowed_list:\t{format_cpus(self.allowed)}")
            cgroup = directory.parent / "sys/fs/cgroup"
            _write(cgroup / "cgroup.controllers", "cpuset")
            _write(cgroup / "job/cpuset.cpus.effective", format_cpus(self.allowed))
            _write(cgroup / "job/cpuset.mems.effective", format_cpus({place.node for place in self.places}))
        _write(directory / "mounts", "\n".join(mounts))

    def _mask(self, cpus: Iterable[int]) -> str:
        """The kernel's notation of a CPU mask: words of 32 bits, the highest first."""
        mask = sum(1 << cpu for cpu in cpus)
        words = -(-len(self.places) // 32)
        return ",".join(f"{mask >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


def machine(
    sockets: int = 1,
    cores: int | Sequence[int] = 8,
    threads: int = 1,
    *,
    nodes_per_socket: int = 1,
    numbering: str = "siblings last",
    node_ids: Sequence[int] | None = None,
    small_cores: int = 0,
    memory_nodes: Sequence[int] = (),
    seed: int = 0,
) -> Machine:
    """A machine with `cores` cores in each NUMA node (a number for each, if they differ) and so many threads in each.

    `small_cores` single-threaded cores are added to the last node. NUMA nodes are numbered through the sockets unless
    `node_ids` names them. CPUs are numbered by one of NUMBERINGS; `seed` is for the last of them.
    """
    nodes = sockets * nodes_per_socket
    ids = list(node_ids or range(nodes))
    sizes = [cores] * nodes if isinstance(cores, int) else list(cores)
    placed: list[Place] = []
    core = 0
    for index, size in enumerate(sizes):
        small = small_cores if index == nodes - 1 else 0
        for within in range(size + small):
            width = threads if within < size else 1
            placed += [Place(index // nodes_per_socket, ids[index], core, thread) for thread in range(width)]
            core += 1
    if numbering == "siblings last":
        placed.sort(key=lambda place: place.thread)
    elif numbering == "interleaved":
        rank_in_node = {place.core: 0 for place in placed}
        for node in ids:
            for number, core in enumerate(sorted({place.core for place in placed if place.node == node})):
                rank_in_node[core] = number
        placed.sort(key=lambda place: (place.thread, rank_in_node[place.core], place.node))
    elif numbering == "shuffled":
        random.Random(seed).shuffle(placed)
    return Machine(tuple(placed), tuple(memory_nodes))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
