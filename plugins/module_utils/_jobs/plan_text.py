# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan for a person to read: the allocation of each host, hosts with the same one together, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import core_map, memory
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import CORES_PER_COMM_CORE
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus
from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import BF16_ISAS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx_text import ABSENT, USABLE
from ansible_collections.amx.cluster.plugins.module_utils._jobs import memory_check, oneccl, optimizing, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.kinds import KINDS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Host, Plan
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, names, wrapped

NO_BF16 = (
    "the job file sets precision to bf16, and the CPUs of {names} have no bf16 instructions, neither AMX nor "
    "avx512_bf16: set precision to fp32 or auto, or leave these hosts out."
)
LOST_AMX = "AMX cannot be used on {names}, though the CPU has it: playbooks/preflight.yml shows why (docs/amx.md)."
_CELLS = ("local rank", "threads on CPUs", "communication", "may run on", "NUMA nodes")
# Backgrounds of the 256-colour palette, for ranks in turn, and for cores on which none computes.
_RANKS = (25, 167, 28, 178, 74, 133, 172, 60)
_OTHERS = {"c": 236, "s": 250, "r": 250, "-": 0}
_DARK_INK, _LIGHT_INK = 16, 231
IN_JOB_FILE = (
    "the job file has the value of {names} in plain text: move it to job_env in the inventory, encrypted by "
    "ansible-vault, and its name to env_from in the job file (docs/job_files.md)"
)


def render(plan: Plan, colour: bool = False, full: bool = True) -> str:
    """Return the plan as text.

    colour: draw cores as cells for a terminal. full: with the map of the cores and all environment variables; without,
    it has the cores of each rank, and what is to be known before the start.
    """
    hosts = plan.hosts
    world = plan.world_size
    lines = [
        f"Job {plan.job}: {count(world, 'rank')} on {count(len(hosts), 'host')}, {plan.precision}, "
        f"backend {plan.backend}, stack {plan.stack}"
        + (f", fabric {plan.fabric.name}" if plan.fabric and plan.fabric.env else "")
    ]
    if plan.project:
        lines += wrapped("", f"Project {project.describe(plan.project)}")
    for name, text in _bf16(plan):
        lines += wrapped(name, text)
    lines += wrapped("", _exchange(plan))
    lines += wrapped("", _optimized(plan))
    lines += wrapped("", plan.ipex)
    for text in memory_check.lines(plan.memory):
        lines += wrapped("", text)
    for text in plan.memory.get("warnings", []):
        lines += [*wrapped("WARNING: ", text.splitlines()[0]), *text.splitlines()[1:]]
    common = dict(set.intersection(*(set(host.env.items()) for host in hosts)))
    alike = _grouped(hosts, _shape)
    for group in alike:
        variants = _grouped(group, lambda host: _detail(host, common))
        lines += [*([""] if full else []), *wrapped(f"{_names(group)}: ", _summary(group[0]))]
        for variant in variants:
            if len(variants) > 1:
                lines += wrapped("  ", f"on {_names(variant)}:")
            if full:
                lines += ["    " + line for line in _host_lines(variant[0], common, colour)]
            else:
                lines += ["    " + line for line in columns(_rank_table(variant[0]))]
    if full:
        lines += _variables(plan, common)
        lines += ["", f"One character is one core: {_legend(hosts)}."]
    elif plan.secrets:
        lines += wrapped("", f"Secret environment variables: {', '.join(sorted(plan.secrets))}")
    notes = [
        wrapped("Note: " if len(named) == len(hosts) else f"Note for {', '.join(named)}: ", warning)
        for warning, named in _warnings(hosts)
    ]
    if plan.fabric and plan.fabric.note:
        notes.append(wrapped("Note: ", plan.fabric.note))
    in_file = [name for name, source in plan.secrets.items() if source == secret_env.JOB_FILE]
    if in_file:
        notes.append(wrapped("Note: ", IN_JOB_FILE.format(names=", ".join(in_file))))
    for note in notes:
        lines += [*([""] if full else []), *note]
    return "\n".join(lines)


def _variables(plan: Plan, common: Mapping[str, str]) -> list[str]:
    """Return the environment variables that all ranks have, and those of the launcher."""
    lines = ["", "On every host:" if len(plan.hosts) > 1 else "Environment:"]
    secrets = plan.secrets
    shown = {**common, **dict.fromkeys(secrets, secret_env.MASK)}
    lines += ["    " + line for line in columns(sorted(shown.items()))]
    if plan.env_launcher:
        lines += ["", f"Environment of {plan.launcher['name']} from the job file:"]
        lines += ["    " + line for line in columns(sorted(plan.env_launcher.items()))]
    return lines


def _bf16(plan: Plan) -> list[tuple[str, str]]:
    """Return (head, text) of what is said of instruction sets: which hosts multiply bf16 with another one than AMX."""
    if plan.precision != "bf16":
        return []
    by_isa = {isa: [host.host for host in plan.hosts if host.isa == isa] for isa in _isas(plan)}
    if list(by_isa) == ["amx"]:
        return []
    runs = (
        f"bf16 {'runs as' if isa in BF16_ISAS else 'is emulated with'} {isa} on {names(hosts)}"
        for isa, hosts in by_isa.items()
    )
    lost = [host.host for host in plan.hosts if host.amx not in ("", *USABLE, *ABSENT)]
    emulating = [host for isa, hosts in by_isa.items() if isa not in BF16_ISAS for host in hosts]
    warning = [("WARNING: ", NO_BF16.format(names=names(emulating)))] if emulating else []
    if lost:
        warning.append(("WARNING: ", LOST_AMX.format(names=names(lost))))
    return [("", "; ".join(runs)), *warning]


def _exchange(plan: Plan) -> str:
    """Return on which cores tensors travel between ranks, and why there, where the backend leaves a choice."""
    ranks = [rank for host in plan.hosts for rank in host.ranks]
    if plan.backend == "gloo" or len(ranks) < 2 or not KINDS[plan.kind].needs_group:
        return ""
    reserved = sum(bool(rank.comm_cpus) for rank in ranks)
    if plan.backend == "ccl" and any(oneccl.has_worker(host.env) for host in plan.hosts):
        return ""
    where = (
        "a communication core of each"
        if reserved == len(ranks)
        else "a communication core of some, and the others' cores"
    )
    if plan.backend == "ccl":
        # The bindings wait for each collective in a thread of their own, which then does the worker's work.
        where = "the compute cores, as oneCCL has no worker"
    elif not reserved:
        few = all(len(rank.compute_cpus) < CORES_PER_COMM_CORE for rank in ranks)
        why = f"ranks with fewer than {CORES_PER_COMM_CORE} cores get none for it" if few else "comm_cores is 0"
        where = f"the compute cores, as {why}"
    return f"Gradients are exchanged while ranks compute, on {where}."


def _optimized(plan: Plan) -> str:
    """Return which parts of a step are computed faster than PyTorch does."""
    parts = [f"{part} ({optimizing.PARTS[part]})" for part in plan.optimized()]
    return f"Steps are optimized: {names(parts)}. With optimize: none, PyTorch computes all of them." if parts else ""


def _isas(plan: Plan) -> list[str]:
    return list(dict.fromkeys(host.isa for host in plan.hosts))


def drawings(maps: Sequence[tuple[str, CoreMap]]) -> dict[str, str]:
    """Return plan-HOST.svg files by name, one for the hosts whose map is the same, named for the first of them.

    maps: (host, its core map) of each host. The drawing's title names all the hosts that it stands for.
    """
    return {
        f"plan-{same[0][0]}.svg": same[0][1].svg(", ".join(host for host, _map in same))
        for same in _grouped(maps, lambda entry: entry[1])
    }


def _grouped(items: Iterable[Any], key: Any) -> list[list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _shape(host: Host) -> tuple[Any, ...]:
    """Return the ranks and threads of a host, on whichever of its cores."""
    shares = tuple((len(rank.compute_cpus), len(rank.comm_cpus), len(rank.numa_nodes)) for rank in host.ranks)
    return host.threads_per_rank, shares


def _detail(host: Host, common: Mapping[str, str]) -> tuple[Any, ...]:
    """All that is shown of a host but its name and its ranks' numbers in the group."""
    own = tuple(sorted(item for item in host.env.items() if item[0] not in common))
    return tuple(core_map.letter_rows(host.map["rows"])), tuple(map(tuple, _rank_cells(host))), own


def _summary(host: Host) -> str:
    ranks, threads = len(host.ranks), host.threads_per_rank
    comm = len(host.ranks[0].comm_cpus)
    reserved = f" and {count(comm, 'CPU')} for communication" if comm else ""
    each = "each with " if ranks > 1 else "with "
    return f"{count(ranks, 'rank')}, {each}{count(threads, 'thread')}{reserved}"


def _host_lines(host: Host, common: Mapping[str, str], colour: bool) -> list[str]:
    drawn = host.map
    lines = core_map.letter_rows(drawn["rows"])
    if colour:
        plain = [core_map.in_blocks(row["letters"]) for row in drawn["rows"]]
        lines = [line.removesuffix(blocks) + _painted(blocks) for line, blocks in zip(lines, plain)]
    lines += core_map.offline_line(drawn["offline"])
    lines += columns(_rank_table(host))
    own = [item for item in sorted(host.env.items()) if item[0] not in common]
    own += [
        (name, f"{value} (rank {place})")
        for place, rank in enumerate(host.ranks)
        for name, value in sorted(rank.env.items())
    ]
    return lines + columns(own)


def _rank_table(host: Host) -> list[tuple[str, ...]]:
    """Return the rows of a host's ranks with their titles; without memory where it is the kernel's choice."""
    rows = [(*_CELLS, "memory"), *_rank_cells(host)]
    return rows if any(rank.memory for rank in host.ranks) else [row[:-1] for row in rows]


def _rank_cells(host: Host) -> list[tuple[str, ...]]:
    return [
        (
            str(place),
            format_cpus(rank.compute_cpus),
            format_cpus(rank.comm_cpus) or "-",
            format_cpus(rank.domain_cpus),
            format_cpus(rank.numa_nodes),
            memory.describe(rank.memory),
        )
        for place, rank in enumerate(host.ranks)
    ]


def _painted(letters: str) -> str:
    """Draw a map's row as coloured cells; the letters stay readable."""
    cells = []
    for letter in letters:
        if letter == " ":
            cells.append(letter)
            continue
        place = core_map.RANK_LETTERS.find(letter)
        back = _RANKS[place % len(_RANKS)] if place >= 0 else _OTHERS[letter]
        ink = _DARK_INK if letter in "sr" else _LIGHT_INK
        cells.append(f"\x1b[38;5;{ink};48;5;{back}m{letter}\x1b[0m")
    return "".join(cells)


def _legend(hosts: Sequence[Host]) -> str:
    letters = "".join(row["letters"] for host in hosts for row in host.map["rows"])
    return core_map.legend(max(len(host.ranks) for host in hosts), set(letters))


def _warnings(hosts: Sequence[Host]) -> list[tuple[str, list[str]]]:
    by_text: dict[str, list[str]] = {}
    for host in hosts:
        for warning in host.warnings:
            by_text.setdefault(warning, []).append(host.host)
    return list(by_text.items())


def _names(hosts: Sequence[Host]) -> str:
    """Name hosts with the numbers that their ranks have in the group."""
    return ", ".join(
        f"{host.host} (rank{'s' if len(host.ranks) > 1 else ''} {format_cpus(rank.rank for rank in host.ranks)})"
        for host in hosts
    )
