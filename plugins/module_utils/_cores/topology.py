# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware of one machine: CPUs, cores, sockets and NUMA nodes, and which of them a job may use.

A CPU is a hardware thread, numbered as Linux numbers it; a core is what holds one or more of them. `lscpu` answers
which CPU belongs where (its CORE column is unique over the machine, sysfs's core_id is not). Read from files are
isolated CPUs and the kind of core, which lscpu does not say, and the socket, which it takes from masks of siblings: one
wrong mask makes one more socket.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

LSCPU_COLUMNS = "CPU,NODE,SOCKET,CORE,ONLINE"
"""Known to every lscpu since util-linux 2.32 (RHEL 8)."""

OFFLINE = "offline"
NOT_ALLOWED = "not allowed"
ISOLATED = "isolated from the scheduler"
OVER_QUOTA = "over the CPU quota"
SERVES = "used by a served model"
LEFT_FREE = "left to others"


@dataclass(frozen=True)
class Cpu:
    """A hardware thread. Linux does not report where an offline one is: its core, socket and node are None."""

    number: int
    core: int | None
    socket: int | None
    node: int | None
    online: bool


@dataclass(frozen=True)
class Core:
    """A physical core with at least one online CPU.

    `cpus` are the CPUs of it that may be used, in ascending order, empty if none; `online_cpus` all that are online.
    `efficient` marks the small cores of a hybrid processor.
    """

    number: int
    socket: int
    node: int
    online_cpus: tuple[int, ...]
    cpus: tuple[int, ...]
    efficient: bool = False


@dataclass(frozen=True)
class Topology:
    """A machine: every CPU, every core that is not wholly offline, and why CPUs may not be used."""

    cpus: tuple[Cpu, ...]
    cores: tuple[Core, ...]
    excluded: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(reason, CPUs) for the CPUs that may not be used; no CPU stands in two of them."""
    warnings: tuple[str, ...] = ()

    @property
    def usable_cores(self) -> tuple[Core, ...]:
        """The cores with at least one CPU that may be used, by lowest usable CPU."""
        return tuple(sorted((core for core in self.cores if core.cpus), key=lambda core: core.cpus[0]))

    @property
    def threads_per_core(self) -> int:
        """The largest number of usable CPUs in one core; 0 if nothing may be used."""
        return max((len(core.cpus) for core in self.cores), default=0)

    @property
    def hybrid(self) -> bool:
        """Return whether the machine has cores of two kinds."""
        return len({core.efficient for core in self.cores}) > 1

    def without(self, cpus: Container[int], reason: str, warning: str = "") -> Topology:
        """Return the machine with no use of the cores that any of these CPUs is on, for this reason.

        warning: the rest of a warning, after the CPUs; empty for none. Raises ValueError where no core is left.
        """
        taken = [core for core in self.usable_cores if any(cpu in cpus for cpu in core.online_cpus)]
        out = tuple(sorted(cpu for core in taken for cpu in core.cpus))
        if not out:
            return self
        if len(taken) == len(self.usable_cores):
            raise ValueError(f"no core is left: CPUs {format_cpus(out)}, which are all, are {reason}")
        cores = tuple(replace(core, cpus=()) if core in taken else core for core in self.cores)
        warnings = (*self.warnings, f"CPUs {format_cpus(out)} {warning}") if warning else self.warnings
        return replace(self, cores=cores, excluded=(*self.excluded, (reason, out)), warnings=warnings)

    def limited(self, count: int) -> Topology:
        """Return the machine with the use of so many cores, of as few NUMA nodes as have them, equally many of each.

        Those are the last ones: interrupts and other programs prefer the first. Small cores of a hybrid processor are
        used where there are too few others. Raises ValueError where it has fewer.
        """
        usable = self.usable_cores
        if not 1 <= count <= len(usable):
            raise ValueError(f"cores={count} is not from 1 to {len(usable)}. {self.describe()}")
        large = [core for core in usable if not core.efficient]
        small = [core for core in usable if core.efficient]
        kept = [*_last(large, min(count, len(large))), *_last(small, max(0, count - len(large)))]
        return self.without({cpu for core in usable if core not in kept for cpu in core.cpus}, LEFT_FREE)

    def summary(self) -> dict[str, Any]:
        """Return the machine's hardware as plain data for a person or a report."""
        usable = self.usable_cores
        nodes = sorted({core.node for core in self.cores})
        excluded = dict(self.excluded)
        return {
            "cpus": len(self.cpus),
            "online_cpus": sum(cpu.online for cpu in self.cpus),
            "usable_cpus": sum(len(core.cpus) for core in usable),
            "cores": len(self.cores),
            "usable_cores": len(usable),
            "threads_per_core": max((len(core.online_cpus) for core in self.cores), default=0),
            "sockets": len({core.socket for core in self.cores}),
            "numa_nodes": [
                {
                    "node": node,
                    "sockets": sorted({core.socket for core in self.cores if core.node == node}),
                    "cores": sum(core.node == node for core in self.cores),
                    "usable_cores": sum(core.node == node for core in usable),
                    "cpus": format_cpus(cpu.number for cpu in self.cpus if cpu.node == node and cpu.online),
                }
                for node in nodes
            ],
            "offline": format_cpus(excluded.get(OFFLINE, ())),
            "not_allowed": format_cpus(excluded.get(NOT_ALLOWED, ())),
            "isolated": format_cpus(excluded.get(ISOLATED, ())),
            "over_quota": format_cpus(excluded.get(OVER_QUOTA, ())),
            "hybrid": self.hybrid,
            "efficient_cpus": format_cpus(cpu for core in self.cores if core.efficient for cpu in core.online_cpus),
        }

    def describe(self) -> str:
        """Return one sentence on the usable CPUs, for messages."""
        usable = self.usable_cores
        if not usable:
            return f"This node has no usable core: {_count(len(self.cores), 'core')} online, none of them allowed."
        parts = [
            f"This node has {_count(len(usable), 'usable core')}",
            f" of {len(self.cores)}" if len(usable) < len(self.cores) else "",
            f", {_count(self.threads_per_core, 'thread')} each at most",
            f", on {_count(len({core.socket for core in usable}), 'socket')}",
            f" and {_count(len({core.node for core in usable}), 'NUMA node')}.",
        ]
        return "".join(parts)


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a list in the kernel's notation, such as `0-3,8` or `0-30:2` (every second one).

    Raises ValueError naming the part that is not a number or a range.
    """
    cpus: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        first, last, step = (int(group) if group else None for group in match.groups()) if match else (None,) * 3
        if first is None or (last is not None and last < first) or step == 0:
            raise ValueError(f"{part!r} in {text!r} is not a CPU number or an ascending range such as 0-5")
        cpus.update(range(first, (first if last is None else last) + 1, step or 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """The kernel's notation of some CPUs, such as `0-3,8`; empty for none."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_lscpu(text: str) -> tuple[Cpu, ...]:
    """The CPUs in the output of `lscpu --json --extended`, of any util-linux since 2.32.

    Until 2.36 every value is a string ("0", "yes"); from 2.37 numbers and booleans. What is not known is `null`,
    "-", or (2.37 to 2.38) a bare dash, which is not JSON. A machine without NUMA is one node, 0.
    Raises ValueError if it is not such a text or holds no online CPU.
    """
    try:
        rows = json.loads(re.sub(r'(":\s*)-(?=\s*[,}\n])', r"\1null", text))["cpus"]
        cpus = [_cpu(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the output of lscpu --json --extended was not understood ({error}): {text[:200]!r}"
        ) from None
    if not any(cpu.online for cpu in cpus):
        raise ValueError("lscpu shows no online CPU")
    return _complete(sorted(cpus, key=lambda cpu: cpu.number))


def _cpu(row: dict[str, Any]) -> Cpu:
    def number(column: str) -> int | None:
        value = row.get(column)
        return None if value in (None, "", "-") else int(value)

    cpu = number("cpu")
    if cpu is None:
        raise ValueError(f"a row without a CPU number: {row}")
    online = row.get("online", True) in (True, "yes", "true", "1", None)
    if not online:
        return Cpu(cpu, None, None, None, False)
    return Cpu(cpu, number("core"), number("socket"), number("node"), True)


def _complete(cpus: list[Cpu]) -> tuple[Cpu, ...]:
    """Fill in what a kernel without topology or NUMA files leaves open: each CPU is then a core of its own."""
    next_core = max((cpu.core for cpu in cpus if cpu.core is not None), default=-1) + 1
    complete = []
    for cpu in cpus:
        if cpu.online:
            core = cpu.core
            if core is None:
                core, next_core = next_core, next_core + 1
            cpu = Cpu(cpu.number, core, cpu.socket or 0, cpu.node or 0, True)
        complete.append(cpu)
    return tuple(complete)


def build(
    cpus: tuple[Cpu, ...],
    allowed: frozenset[int] | None = None,
    *,
    named: bool = False,
    isolated: frozenset[int] = frozenset(),
    efficient: frozenset[int] | None = None,
    quota: float | None = None,
) -> Topology:
    """The topology of a machine with these CPUs.

    `allowed` are the CPUs that may be used, by default all online ones. With `named` a person named them: then a CPU
    that is absent or offline is an error, and isolated CPUs among them are used. Otherwise isolated CPUs, which the
    administrator took out of the scheduler's hands, are left alone unless there are no others.
    `efficient` are the CPUs of small cores; None if the kernel does not say, then it is inferred: single-threaded
    cores beside multithreaded ones, on a machine with no CPU offline.
    `quota` is the number of CPUs whose time may be used (see cpu_quota): as many cores are, of as few NUMA nodes as
    possible, unless a person named them.
    Raises ValueError for an `allowed` list that does not fit the machine.
    """
    present = frozenset(cpu.number for cpu in cpus)
    online = frozenset(cpu.number for cpu in cpus if cpu.online)
    if allowed is None:
        allowed = online
    if named:
        _check_named(allowed, present, online)
    usable = allowed & online
    warnings = []
    left_alone: frozenset[int] = frozenset()
    if isolated & usable:
        if named or usable <= isolated:
            warnings.append(
                f"CPUs {format_cpus(isolated & usable)} are isolated: the kernel does not balance load over them, "
                "so threads that nothing pins stay where they start"
            )
        else:
            left_alone = isolated & usable
            usable -= left_alone
    over = _over_quota(_cores(cpus, usable, efficient), quota)
    if over:
        warnings.append(
            f"the cgroup of this process may use the time of {quota:g} CPUs: "
            + (
                "threads on more cores are stopped again and again, and all ranks wait for them"
                if named
                else f"CPUs {format_cpus(over)} are left alone, because threads on more cores would be stopped again "
                "and again. Raise or remove the quota (CPUQuota of systemd, --cpus of a container) to use them"
            )
        )
        over = frozenset() if named else over
        usable -= over
    excluded = (
        (OFFLINE, present - online),
        (NOT_ALLOWED, online - allowed),
        (ISOLATED, left_alone),
        (OVER_QUOTA, over),
    )
    return Topology(
        cpus,
        _cores(cpus, usable, efficient),
        tuple((reason, tuple(sorted(out))) for reason, out in excluded if out),
        tuple(warnings),
    )


def _over_quota(cores: tuple[Core, ...], quota: float | None) -> frozenset[int]:
    """The usable CPUs of the cores that are too many for the quota; one core is always kept."""
    if quota is None:
        return frozenset()
    usable = sorted((core for core in cores if core.cpus), key=lambda core: (core.node, core.cpus[0]))
    # Hundredths: a quota is written in microseconds, and 2 CPUs must not become 1.
    return frozenset(cpu for core in usable[max(1, int(quota + 0.01)) :] for cpu in core.cpus)


def _check_named(allowed: frozenset[int], present: frozenset[int], online: frozenset[int]) -> None:
    faults = [
        f"CPUs {format_cpus(wrong)}, which {reason}"
        for wrong, reason in (
            (allowed - present, "this node does not have"),
            ((allowed & present) - online, "are offline"),
        )
        if wrong
    ]
    if faults or not allowed:
        nearest = allowed & online or online
        raise ValueError(
            f"allowed_cpus {format_cpus(allowed)!r} names {' and '.join(faults) or 'no CPU'}. "
            f"This node has CPUs {format_cpus(present)}, online {format_cpus(online)}. "
            f"The nearest list that fits: {format_cpus(nearest)}"
        )


def _last(cores: Sequence[Core], count: int) -> list[Core]:
    """Return so many cores of as few NUMA nodes as have them, equally many of each, the last ones."""
    nodes = sorted(([core for core in cores if core.node == node] for node in sorted({c.node for c in cores})), key=len)
    chosen: list[list[Core]] = []
    while sum(map(len, chosen)) < count:
        chosen.append(nodes.pop())
    kept: list[Core] = []
    for place, of_node in enumerate(sorted(chosen, key=len)):
        share = min(len(of_node), (count - len(kept)) // (len(chosen) - place))
        kept += of_node[len(of_node) - share :]
    return kept


def _cores(cpus: tuple[Cpu, ...], usable: frozenset[int], efficient: frozenset[int] | None) -> tuple[Core, ...]:
    members: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        if cpu.core is not None:
            members.setdefault(cpu.core, []).append(cpu)
    if efficient is None:
        # An offline sibling would make a large core look like a small one.
        mixed = len({len(group) for group in members.values()}) > 1 and all(cpu.online for cpu in cpus)
        efficient = frozenset(g[0].number for g in members.values() if mixed and len(g) == 1)
    cores = [
        Core(
            number,
            group[0].socket or 0,
            group[0].node or 0,
            tuple(cpu.number for cpu in group),
            tuple(cpu.number for cpu in group if cpu.number in usable),
            group[0].number in efficient,
        )
        for number, group in members.items()
    ]
    return tuple(sorted(cores, key=lambda core: core.online_cpus[0]))


def read(root: str = "/", allowed_cpus: str | None = None) -> Topology:
    """The topology of this machine, or of the one whose /sys and /proc were captured below `root`.

    `allowed_cpus` is a CPU list; by default what this process may use (for a captured tree: what its
    proc/self/status says, else every online CPU).
    Raises ValueError if lscpu is missing or cannot read the tree, or if the list does not fit the machine.
    """
    base = Path(root)
    cpus = _in_packages(parse_lscpu(_lscpu(base)), packages(base))
    named = allowed_cpus is not None and allowed_cpus.strip() != ""
    try:
        allowed = parse_cpus(allowed_cpus or "") if named else _process_cpus(base)
    except ValueError as error:
        online = format_cpus(cpu.number for cpu in cpus if cpu.online)
        raise ValueError(f"allowed_cpus: {error}. The CPUs online on this node are {online}") from None
    topology = build(
        cpus,
        allowed,
        named=named,
        isolated=_cpus_in(base / "sys/devices/system/cpu/isolated") or frozenset(),
        efficient=_cpus_in(base / "sys/devices/cpu_atom/cpus"),
        quota=cpu_quota(base),
    )
    if named and _is_live(base) and allowed is not None:
        _check_permitted(allowed)
    return topology


def packages(root: Path) -> dict[int, int]:
    """Return the package, which is a socket, of each online CPU that the kernel knows it of. `root` as for read."""
    base = root / "sys/devices/system/cpu"
    online = _cpus_in(base / "online")
    package_of = {}
    for file in base.glob("cpu[0-9]*/topology/physical_package_id"):
        cpu, text = int(file.parts[-3].removeprefix("cpu")), file.read_text(encoding="ascii").strip()
        if text.isdigit() and (online is None or cpu in online):
            package_of[cpu] = int(text)
    return package_of


def _in_packages(cpus: tuple[Cpu, ...], packages: Mapping[int, int]) -> tuple[Cpu, ...]:
    """Return the CPUs with their packages as sockets, or with lscpu's sockets unless all online ones have a package."""
    if not all(cpu.number in packages for cpu in cpus if cpu.online):
        return cpus
    return tuple(replace(cpu, socket=packages[cpu.number]) if cpu.online else cpu for cpu in cpus)


def cpu_quota(root: Path) -> float | None:
    """Return how many CPUs' time this process may use: the least of its cgroups' limits, None for none."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    mounts = root / "sys/fs/cgroup"
    limits = []
    for line in lines:
        _number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if not controllers:
            tops, files = (mounts, mounts / "unified"), ["cpu.max"]
        elif "cpu" in controllers.split(","):
            tops, files = (mounts / controllers, mounts / "cpu"), ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        inside = Path(path.lstrip("/"))
        # In a container, the path may be that of the machine and the mount that of the container.
        limits += [_limit(top / group, files) for top in tops for group in (inside, *inside.parents)]
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(group: Path, files: Iterable[str]) -> float | None:
    try:
        words = " ".join((group / name).read_text(encoding="ascii") for name in files).split()
        quota, period = int(words[0]), int(words[1])
    except (OSError, ValueError, IndexError):  # there is none: "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _is_live(root: Path) -> bool:
    return root.resolve() == Path("/")


def _lscpu(root: Path) -> str:
    command = ["lscpu", "--json", f"--extended={LSCPU_COLUMNS}"]
    if not _is_live(root):
        if not root.is_dir():
            raise ValueError(f"root {str(root)!r} is not a directory with the /sys and /proc of a machine")
        command[1:1] = ["--sysroot", str(root.resolve())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise ValueError(f"lscpu, a part of util-linux, could not be run: {error}") from None
    if done.returncode:
        raise ValueError(f"lscpu cannot read the machine below {str(root)!r}: {done.stderr.strip()}")
    return done.stdout


def _process_cpus(root: Path) -> frozenset[int] | None:
    if _is_live(root):
        return frozenset(os.sched_getaffinity(0))
    try:
        status = (root / "proc/self/status").read_text()
    except OSError:
        return None
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    return parse_cpus(match.group(1)) if match else None


def _cpus_in(path: Path) -> frozenset[int] | None:
    try:
        return parse_cpus(path.read_text().strip())
    except OSError:
        return None


def _check_permitted(wanted: frozenset[int]) -> None:
    """Ask the kernel whether this process may run on these CPUs: affinity can be widened, a cpuset cannot."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, wanted)
        permitted = frozenset(os.sched_getaffinity(0))
    except OSError:
        permitted = frozenset()
    finally:
        os.sched_setaffinity(0, before)
    if wanted - permitted:
        raise ValueError(
            f"allowed_cpus {format_cpus(wanted)!r} names CPUs {format_cpus(wanted - permitted)}, "
            "which the cpuset of this process does not permit. "
            f"The nearest list that fits: {format_cpus(permitted or before)}"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
