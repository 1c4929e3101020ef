# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what ranks observed of themselves with what was planned for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import format_cpus
from ansible_collections.amx.cluster.plugins.module_utils._hosts import onednn
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Host, Plan, Rank
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, size

ALLOCATORS = ("libtcmalloc", "libjemalloc")
NO_ALLOCATOR = "glibc"
MEMORY = "memory"
OWN_MEMORY = 0.9
"""Of a rank's memory, on the NUMA nodes that it prefers: the kernel may need some of theirs for something else."""

# In the job directory: what the ranks observed.
OBSERVED = "observed.json"


@dataclass(frozen=True)
class Finding:
    """One thing that was planned for a rank, and what it is."""

    host: str
    rank: int
    what: str
    planned: str
    observed: str
    ok: bool

    def __str__(self) -> str:
        return f"{self.host}, rank {self.rank}, {self.what}: planned {self.planned}, observed {self.observed}"


def compare(plan: Plan, observed: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Compare each rank's report with the plan; findings in the order of the ranks, those that agree among them.

    Planned is what the allocation says (compute_cpus, comm_cpus, domain_cpus), not what the environment was to bring
    about, so that a job whose own environment spoils the plan is found out.
    observed: a report of each rank, as runtime/amx_cluster/verify_ranks.py documents it.
    """
    reports = {report["rank"]: report for report in observed}
    findings = []
    for host in plan.hosts:
        for rank in host.ranks:
            report = reports.pop(rank.rank, None)
            where = report["host"] if report else "missing"
            findings.append(Finding(host.host, rank.rank, "host", host.host, where, where == host.host))
            if report:
                for check, planned, seen, agree in _rank_checks(plan, host, rank, report):
                    findings.append(Finding(host.host, rank.rank, check, planned, seen, agree))
    for number, report in sorted(reports.items()):
        findings.append(Finding(report["host"], number, "host", "no such rank", report["host"], False))
    return findings


def differences(plan: Plan, observed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return of each difference the host, the rank, what was planned and what was observed.

    Memory elsewhere is none: ranks prefer nodes, and the kernel takes others where these are full (memory_elsewhere).
    """
    return [str(finding) for finding in compare(plan, observed) if not finding.ok and finding.what != MEMORY]


def memory_elsewhere(plan: Plan, observed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the ranks whose memory is not on the NUMA nodes that were planned, and what to do."""
    return [
        f"{finding}. These nodes are too small for the rank, or full, often with cached files: compare MemFree and "
        "FilePages in /sys/devices/system/node/node*/meminfo. As root, sync; echo 1 > /proc/sys/vm/drop_caches empties "
        'the cache; host_tuning_zone_reclaim: "1" has the kernel do so by itself'
        for finding in compare(plan, observed)
        if not finding.ok and finding.what == MEMORY
    ]


def table(plan: Plan, observed: Sequence[Mapping[str, Any]]) -> str:
    """Show what each rank observed, a line each, and where that is not what was planned."""
    findings = compare(plan, observed)
    titles = list(dict.fromkeys(finding.what for finding in findings if finding.what != "host"))
    lines = [("host", "rank", *titles, "as planned")]
    for host, rank in dict.fromkeys((finding.host, finding.rank) for finding in findings):
        mine = {finding.what: finding for finding in findings if (finding.host, finding.rank) == (host, rank)}
        cells = [
            (_short(mine[title].observed) + ("" if mine[title].ok else f" (planned {_short(mine[title].planned)})"))
            if title in mine
            else ""
            for title in titles
        ]
        wrong = [title for title, finding in mine.items() if not finding.ok]
        lines.append((host, str(rank), *cells, f"NO: {', '.join(wrong)}" if wrong else "yes"))
    return "\n".join(columns(lines))


def loaded_besides(observed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the OpenMP run times that ranks loaded and do not compute with, and that have no threads."""
    return [
        f"OpenMP run time, also loaded by {_ranks(ranks)} and not started: {file}"
        for file, ranks in _other_openmp(observed, started=False).items()
    ]


def warnings(observed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the OpenMP run times that have threads in ranks beside those of the one that torch computes with."""
    return [
        f"two OpenMP run times are active in {_ranks(ranks)}: torch computes with another one than {file}, which has "
        "started threads, too. They compete for the same cores: find the package that brings the library, and leave it "
        "out or set its number of threads to 1"
        for file, ranks in _other_openmp(observed, started=True).items()
    ]


def _other_openmp(observed: Sequence[Mapping[str, Any]], started: bool) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for report in observed:
        for file, active in report["other_openmp"].items():
            if active == started:
                numbers.setdefault(file, []).append(report["rank"])
    return numbers


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {format_cpus(numbers)}"


def _rank_checks(plan: Plan, host: Host, rank: Rank, report: Mapping[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield (what, planned, observed, whether they agree)."""
    compute, domain = rank.compute_cpus, rank.domain_cpus
    threads = report["threads"]

    yield _same("domain", format_cpus(domain), format_cpus(report["cpus"]))

    count = str(report["omp_threads"])
    if len(threads) != report["omp_threads"]:
        count += f" ({len(threads)} ran)"
    # torch lowers a number that is above the cores of the domain; other libraries do not.
    if report["omp_num_threads"] != str(len(compute)):
        count += f" (OMP_NUM_THREADS={report['omp_num_threads']})"
    yield _same("OpenMP threads", str(len(compute)), count)

    # A rank with one thread has no parallel region, so OpenMP does not bind it: it has the whole domain.
    places = [[cpu] for cpu in compute] if len(compute) > 1 else [domain]
    yield _same("allowed on", _each(places), _each([thread["cpus"] for thread in threads]))

    ran = sorted(thread["cpu"] for thread in threads)
    agree = ran == sorted(compute) if len(compute) > 1 else set(ran) <= set(domain)
    yield "ran on", _each([[cpu] for cpu in compute]) if len(compute) > 1 else _each([domain]), _numbers(ran), agree

    yield _communication(plan.backend, rank, report)

    yield _same("OpenMP run time", f"{plan.environment}/lib/libiomp5.so", report["openmp"] or "none")

    preloaded = host.env.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    yield _same("allocator", _allocators(preloaded), _allocators(report["libraries"]))

    yield _amx(plan.precision, host.isa, report)

    memory = {int(node): number for node, number in report["memory"].items()}
    if rank.memory or len(memory) > 1:
        yield _memory(rank.memory, memory)
    yield "huge pages", "-", size(report["huge_pages"]) if report["huge_pages"] else "none", True


def _memory(policy: Mapping[str, Any], memory: Mapping[int, int]) -> tuple[str, str, str, bool]:
    """Return how much is on which NUMA node, as text, with the planned policy. memory: bytes by node."""
    text = ", ".join(f"{size(number)} on {node}" for node, number in memory.items()) or "unknown to the kernel"
    if not policy or not memory:
        return MEMORY, "-", text, True
    own = sum(number for node, number in memory.items() if node in policy["nodes"])
    return MEMORY, f"on {format_cpus(policy['nodes'])}", text, own >= OWN_MEMORY * sum(memory.values())


def _amx(precision: str, isa: str, report: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    """Return by what a matrix multiplication in bfloat16 ran: a CPU may list AMX, and its kernel not grant it."""
    if precision != "bf16":
        return "AMX", "-", "not needed", True
    ran = report["product"]
    if onednn.is_amx(ran):
        return "AMX", "used" if isa == "amx" else "-", "used", True
    if isa != "amx":
        return "AMX", "-", f"{ran or isa} instead", True
    refused = {True: "granted", False: "not granted", None: "unknown to the kernel"}[report["amx"]]
    return "AMX", "used", f"{ran or 'a product without oneDNN'} instead ({refused})", False


def _communication(backend: str, rank: Rank, report: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    seen = [thread["cpus"] for thread in report["comm_threads"]]
    text = " and ".join(sorted({format_cpus(cpus) for cpus in seen})) or "no threads"
    if backend == "ccl":
        # Each worker has a core of its own; what else the library starts stays in the domain.
        workers = [cpus for cpus in seen if not set(cpus) <= set(rank.domain_cpus)]
        planned = [[cpu] for cpu in rank.comm_cpus]
        return "communication", _each(planned), text, sorted(workers) == sorted(planned)
    planned_text = format_cpus(rank.domain_cpus)
    if backend == "mpi" and rank.comm_cpus:
        # The collectives' thread on the communication cores; the one that watches them sleeps in the domain.
        comm = format_cpus(rank.comm_cpus)
        planned_text = " and ".join(sorted([comm, planned_text]))
    return "communication", planned_text, text, text == planned_text


def _same(title: str, planned: str, observed: str) -> tuple[str, str, str, bool]:
    return title, planned, observed, planned == observed


def _short(value: str) -> str:
    """Leave of a path its name: the whole stands in the difference."""
    return PurePosixPath(value).name


def _each(threads: Sequence[Sequence[int]]) -> str:
    """Return on which CPUs each of some threads may run: `0-3` is a thread on each of four, `2 x 0-3` two on any."""
    single = sorted(cpus[0] for cpus in threads if len(cpus) == 1)
    wide = [format_cpus(cpus) for cpus in threads if len(cpus) != 1]
    words = [_numbers(single)] if single else []
    words += [f"{wide.count(text)} x {text}" if len(threads) > 1 else text for text in dict.fromkeys(sorted(wide))]
    return " and ".join(words) or "none"


def _numbers(cpus: Sequence[int]) -> str:
    """CPUs as a list; one that several threads share is named with their number."""
    shared = [f"{cpus.count(cpu)} x {cpu}" for cpu in sorted(set(cpus)) if cpus.count(cpu) > 1]
    own = [cpu for cpu in sorted(set(cpus)) if cpus.count(cpu) == 1]
    return " and ".join(([format_cpus(own)] if own else []) + shared) or "none"


def _allocators(paths: Sequence[str]) -> str:
    """Return the names of the allocators among some libraries, without their versions."""
    names = {PurePosixPath(path).name.split(".so")[0] for path in paths}
    return ", ".join(sorted(name for name in names if name.startswith(ALLOCATORS))) or NO_ALLOCATOR
