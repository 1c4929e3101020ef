"""Independent judges of a plan: Intel MPI and Intel's OpenMP run time are given its environment and asked what they do.

Intel MPI pins for the machine that HWLOC_FSROOT shows it, whatever machine it runs on, and tells each rank the result
in I_MPI_PIN_INFO. On this machine itself the ranks are started for real, and each thread says where it may run.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation, Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology, parse_cpus, read
from support.intel_mpi import IntelMpi
from support.machines import Machine, machine

MADE: dict[str, Machine] = {
    "2 x 16 x 2": machine(2, 16, 2),
    "2 x 8 x 2, siblings adjacent": machine(2, 8, 2, numbering="siblings adjacent"),
    "2 x 20 x 2, 4 nodes interleaved": machine(2, 10, 2, nodes_per_socket=2, numbering="interleaved"),
    "node numbers 0, 2, 3": machine(3, 6, 2, node_ids=(0, 2, 3)),
    "8 nodes and 8 without CPUs": machine(2, 14, 2, nodes_per_socket=4, memory_nodes=range(8, 16)),
    "CPU 0 and others offline": machine(2, 8, 2).without([0, 3, 17, 20]),
    "7 cores": machine(1, 7),
    "nodes that differ": machine(2, (12, 5), 2),
    "6 large and 8 small cores": machine(1, 6, 2, numbering="siblings adjacent", small_cores=8),
    "8 sockets": machine(8, 4, 2),
    "shuffled": machine(2, 12, 2, numbering="shuffled", seed=7),
    "2 x 128 x 2": machine(2, 128, 2),
    "2 x 16 x 2, a cpuset within both sockets": machine(2, 16, 2).confined([*range(3, 12), *range(20, 26)]),
    "2 x 8 x 2, siblings adjacent, a cpuset of 6": machine(2, 8, 2, numbering="siblings adjacent").confined(range(6)),
    "2 x 12 x 2, shuffled, a cpuset of 21": machine(2, 12, 2, numbering="shuffled", seed=7).confined(range(21)),
}
REQUESTS = [
    Request(),
    Request(1, reserved_cores=0),
    Request("<=4", "ccl", 1, 0),
    Request(3, "ccl", 1, "auto"),
    Request("<=5", "gloo", 1, 2),
    Request(2, "ccl", 1, 1, "all"),
    Request("socket", "ccl", 1, 0),
]


def _cases() -> list[tuple[str, Path | Machine, str | None]]:
    cases: list[tuple[str, Path | Machine, str | None]] = [(name, made, None) for name, made in MADE.items()]
    for tree in filter(None, os.environ.get("AMX_CLUSTER_TREES", "").split(":")):
        folder, _equals, cpus = tree.partition("=")
        cases.append((Path(folder).name + f", cpuset {cpus}" * bool(cpus), Path(folder), cpus or None))
    return cases


def _pinned(intel_mpi: IntelMpi, tree: Path, ranks: int, env: dict[str, str]) -> list[set[int]]:
    shown = {"HWLOC_FSROOT": str(tree), "HWLOC_COMPONENTS": "-x86"}
    told = intel_mpi.run(ranks, ["sh", "-c", 'echo "$PMI_RANK $I_MPI_PIN_INFO"'], {**env, **shown})
    assert sorted(told) == list(range(ranks))
    return [set(parse_cpus(told[rank])) for rank in range(ranks)]


def _plan_or_nearest(topology: Topology, request: Request) -> Allocation:
    """The plan; where the machine is too small for the request, that of the nearest one, which the refusal names."""
    try:
        return allocate(topology, request)
    except ValueError as error:
        nearest = str(error).rpartition("The nearest request that fits: ")[2].split(", or ")[0]
        numbers = {name: int(number) for name, _equals, number in (word.partition("=") for word in nearest.split(", "))}
        return allocate(topology, replace(request, **numbers))  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
@pytest.mark.parametrize(("source", "cpus"), [case[1:] for case in _cases()], ids=[case[0] for case in _cases()])
def test_intel_mpi_pins_as_planned(
    intel_mpi: IntelMpi, source: Path | Machine, cpus: str | None, request_: Request, tmp_path: Path
) -> None:
    tree = source.write(tmp_path) if isinstance(source, Machine) else source
    topology = read(str(tree), cpus)
    plan = _plan_or_nearest(topology, request_)
    assert _pinned(intel_mpi, tree, len(plan.ranks), dict(plan.env)) == [set(rank.domain_cpus) for rank in plan.ranks]


def test_the_judge_sees_a_difference(intel_mpi: IntelMpi, tmp_path: Path) -> None:
    tree = MADE["2 x 16 x 2"].write(tmp_path)
    plan = allocate(read(str(tree)), Request(2, "ccl"))
    planned = [set(rank.domain_cpus) for rank in plan.ranks]
    assert _pinned(intel_mpi, tree, 2, {}) != planned
    assert _pinned(intel_mpi, tree, 2, dict(plan.env)) == planned


# On this machine

OBSERVE = """
import ctypes, json, os, sys
openmp = ctypes.CDLL(sys.argv[1])
threads = {}
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def body(_):
    threads[openmp.omp_get_thread_num()] = sorted(os.sched_getaffinity(0))
domain = sorted(os.sched_getaffinity(0))
openmp.GOMP_parallel(body, None, 0, 0)
print(os.environ["PMI_RANK"], json.dumps([domain, [threads[number] for number in sorted(threads)]]))
"""


def _observed(intel_mpi: IntelMpi, plan: Allocation, extra: dict[str, str]) -> list[tuple[list[int], list[list[int]]]]:
    """(domain, CPUs of each OpenMP thread) of every rank, which a rank wrapper gave its own environment."""
    own = {f"RANK_{rank.rank}": json.dumps(dict(rank.env)) for rank in plan.ranks}
    wrapper = (
        "import json, os, sys\n"
        "os.environ.update(json.loads(os.environ['RANK_' + os.environ['PMI_RANK']]))\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", wrapper, "-c", OBSERVE, str(intel_mpi.openmp)]
    told = intel_mpi.run(len(plan.ranks), command, {**plan.env, **extra, **own})
    return [tuple(json.loads(told[rank.rank])) for rank in plan.ranks]


def _planned(plan: Allocation) -> list[tuple[list[int], list[list[int]]]]:
    return [(list(rank.domain_cpus), [[cpu] for cpu in rank.compute_cpus]) for rank in plan.ranks]


@pytest.mark.parametrize(
    "request_",
    [Request(1), Request("<=2"), Request(1, "gloo", 1), Request(1, "ccl"), Request(1, "gloo", 0, 0, "all")],
    ids=str,
)
def test_threads_run_where_the_plan_says_on_this_machine(intel_mpi: IntelMpi, request_: Request) -> None:
    plan = _plan_or_nearest(read(), request_)
    assert _observed(intel_mpi, plan, {}) == _planned(plan)


@pytest.mark.parametrize("threads_per_core", [1, "all"])
def test_threads_run_where_the_plan_says_with_hyperthreads(
    intel_mpi: IntelMpi, threads_per_core: int | str, tmp_path: Path
) -> None:
    """The OpenMP run time is shown this machine's first two CPUs as the hyperthreads of one core."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs the CPUs 0 and 1")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("".join(f"processor\t: {cpu}\nphysical id\t: 0\ncore id\t\t: 0\n\n" for cpu in (0, 1)))
    plan = allocate(read(str(machine(1, 1, 2).write(tmp_path))), Request(1, threads_per_core=threads_per_core))
    assert plan.threads_per_rank == (1 if threads_per_core == 1 else 2)
    shown = {"KMP_TOPOLOGY_METHOD": "cpuinfo", "KMP_CPUINFO_FILE": str(cpuinfo)}
    assert _observed(intel_mpi, plan, shown) == _planned(plan)
