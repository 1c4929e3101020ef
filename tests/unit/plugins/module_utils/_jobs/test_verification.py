from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import verification
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan

ENV = "/opt/amx-cluster/envs/native-1"


def make_plan(**fields: Any) -> dict[str, Any]:
    """Two hosts: two ranks of two threads, and one rank of one."""
    ranks = [
        {"rank": 0, "compute_cpus": [0, 1], "comm_cpus": [], "domain_cpus": [0, 1]},
        {"rank": 1, "compute_cpus": [3, 4], "comm_cpus": [2], "domain_cpus": [2, 3, 4]},
        {"rank": 2, "compute_cpus": [7], "comm_cpus": [], "domain_cpus": [7]},
    ]
    env = {"LD_PRELOAD": f"{ENV}/lib/libiomp5.so"}
    return {
        "backend": "gloo",
        "precision": "bf16",
        "environment": ENV,
        "hosts": [
            {"host": "node0", "isa": "amx", "env": env, "ranks": ranks[:2]},
            {"host": "node1", "isa": "amx", "env": env, "ranks": ranks[2:]},
        ],
        **fields,
    }


def make_report(host: str, rank: dict[str, Any]) -> dict[str, Any]:
    """What a rank observes that follows its plan."""
    compute, domain = rank["compute_cpus"], rank["domain_cpus"]
    return {
        "rank": rank["rank"],
        "host": host,
        "cpus": domain,
        "omp_threads": len(compute),
        "omp_num_threads": str(len(compute)),
        "threads": [{"name": "python", "cpus": [cpu] if len(compute) > 1 else domain, "cpu": cpu} for cpu in compute],
        "comm_threads": [{"name": "gloo", "cpus": domain, "cpu": domain[0]}] * 3,
        "openmp": f"{ENV}/lib/libiomp5.so",
        "other_openmp": {f"{ENV}/lib/python3.11/site-packages/torch/lib/libgomp.so.1": False},
        "libraries": [f"{ENV}/lib/libiomp5.so", f"{ENV}/lib/python3.11/site-packages/torch/lib/libgomp.so.1"],
        "product": "brg_matmul:avx10_1_512_amx",
        "amx": True,
        "memory": {"0": 300 * 2**20},
        "huge_pages": 0,
    }


def make_observed(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [make_report(host["host"], copy.deepcopy(rank)) for host in plan["hosts"] for rank in host["ranks"]]


def test_ranks_that_follow_the_plan_differ_in_nothing() -> None:
    plan = make_plan()
    assert verification.differences(Plan.from_json(plan), make_observed(plan)) == []
    assert len(verification.compare(Plan.from_json(plan), make_observed(plan))) == 3 * 10


@pytest.mark.parametrize(
    ("rank", "observed", "difference"),
    [
        (0, {"cpus": [0, 1, 2, 3]}, "node0, rank 0, domain: planned 0-1, observed 0-3"),
        (
            0,
            {"omp_num_threads": "48"},
            "node0, rank 0, OpenMP threads: planned 2, observed 2 (OMP_NUM_THREADS=48)",
        ),
        (0, {"omp_threads": 3}, "node0, rank 0, OpenMP threads: planned 2, observed 3 (2 ran)"),
        (
            0,
            {"threads": [{"cpus": [0, 1], "cpu": 0}, {"cpus": [0, 1], "cpu": 1}]},
            "node0, rank 0, allowed on: planned 0-1, observed 2 x 0-1",
        ),
        (
            1,
            {"threads": [{"cpus": [3], "cpu": 3}, {"cpus": [3], "cpu": 3}]},
            "node0, rank 1, allowed on: planned 3-4, observed 2 x 3",
        ),
        (
            1,
            {"threads": [{"cpus": [3], "cpu": 3}, {"cpus": [4], "cpu": 3}]},
            "node0, rank 1, ran on: planned 3-4, observed 2 x 3",
        ),
        (2, {"threads": [{"cpus": [7], "cpu": 6}]}, "node1, rank 2, ran on: planned 7, observed 6"),
        (1, {"comm_threads": [{"cpus": [3]}]}, "node0, rank 1, communication: planned 2-4, observed 3"),
        (
            1,
            {"comm_threads": [{"cpus": [3]}, {"cpus": [2, 3, 4]}]},
            "node0, rank 1, communication: planned 2-4, observed 2-4 and 3",
        ),
        (1, {"comm_threads": []}, "node0, rank 1, communication: planned 2-4, observed no threads"),
        (
            2,
            {"openmp": "/usr/lib/libgomp.so.1"},
            f"node1, rank 2, OpenMP run time: planned {ENV}/lib/libiomp5.so, observed /usr/lib/libgomp.so.1",
        ),
        (2, {"openmp": ""}, f"node1, rank 2, OpenMP run time: planned {ENV}/lib/libiomp5.so, observed none"),
        (
            2,
            {"libraries": ["/usr/lib/libjemalloc.so.2"]},
            "node1, rank 2, allocator: planned glibc, observed libjemalloc",
        ),
        (
            2,
            {"product": "brg_matmul:avx512_core_bf16", "amx": False},
            "node1, rank 2, AMX: planned used, observed brg_matmul:avx512_core_bf16 instead (not granted)",
        ),
        (
            2,
            {"product": "", "amx": None},
            "node1, rank 2, AMX: planned used, observed a product without oneDNN instead (unknown to the kernel)",
        ),
        (0, {"host": "node1"}, "node0, rank 0, host: planned node0, observed node1"),
        (0, {"rank": 5}, "node0, rank 0, host: planned node0, observed missing"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else None,
)
def test_each_difference_is_told(rank: int, observed: dict[str, Any], difference: str) -> None:
    plan = make_plan()
    reports = make_observed(plan)
    reports[rank].update(observed)
    assert verification.differences(Plan.from_json(plan), reports)[0] == difference
    assert "NO: " in verification.table(Plan.from_json(plan), reports)


def test_a_rank_that_nobody_planned_is_told() -> None:
    plan = make_plan()
    reports = [*make_observed(plan), {**make_observed(plan)[2], "rank": 3}]
    assert verification.differences(Plan.from_json(plan), reports) == [
        "node1, rank 3, host: planned no such rank, observed node1"
    ]


def test_one_spoilt_thing_is_one_difference() -> None:
    plan = make_plan()
    reports = make_observed(plan)
    reports[2]["product"] = "brg_matmul:avx512_core_bf16"
    assert len(verification.differences(Plan.from_json(plan), reports)) == 1


def test_amx_is_only_planned_for_bfloat16_on_hosts_that_have_it() -> None:
    for plan in (make_plan(precision="fp32"), make_plan()):
        if plan["precision"] == "bf16":
            plan["hosts"][1]["isa"] = "avx512_bf16"
        reports = make_observed(plan)
        reports[2]["product"] = "brg_matmul:avx512_core_bf16"
        assert verification.differences(Plan.from_json(plan), reports) == []
        instead = "brg_matmul:avx512_core_bf16 instead" if plan["precision"] == "bf16" else "not needed"
        assert instead in verification.table(Plan.from_json(plan), reports).splitlines()[3]


def test_a_preloaded_allocator_must_be_there() -> None:
    plan = make_plan()
    plan["hosts"][1]["env"] = {"LD_PRELOAD": f"{ENV}/lib/libiomp5.so:{ENV}/lib/libtcmalloc.so.4"}
    reports = make_observed(plan)
    assert verification.differences(Plan.from_json(plan), reports) == [
        "node1, rank 2, allocator: planned libtcmalloc, observed glibc",
    ]
    reports[2]["libraries"].append(f"{ENV}/lib/libtcmalloc.so.4.5.9")
    assert verification.differences(Plan.from_json(plan), reports) == []


@pytest.mark.parametrize(
    ("backend", "thread", "observed"),
    [
        ("ccl", "ccl", "planned 21, observed 3 and 3-4"),
        ("mpi", "mpi-progress", "planned 21 and 3-4, observed 3 and 3-4"),
    ],
)
def test_workers_have_their_cores_and_other_threads_the_domain(backend: str, thread: str, observed: str) -> None:
    plan = make_plan(backend=backend)
    for rank in (rank for host in plan["hosts"] for rank in host["ranks"]):
        rank.update(domain_cpus=rank["compute_cpus"], comm_cpus=[20 + rank["rank"]])
    reports = make_observed(plan)
    for report in reports:
        report["comm_threads"].append({"name": thread, "cpus": [20 + report["rank"]], "cpu": 2})
    assert verification.differences(Plan.from_json(plan), reports) == []
    reports[1]["comm_threads"][-1]["cpus"] = [3]
    assert verification.differences(Plan.from_json(plan), reports) == [f"node0, rank 1, communication: {observed}"]


def test_mpi_without_its_thread() -> None:
    plan = make_plan(backend="mpi")
    plan["hosts"][0]["ranks"][0]["comm_cpus"] = [20]
    del plan["hosts"][0]["ranks"][1], plan["hosts"][1]
    assert verification.differences(Plan.from_json(plan), make_observed(plan)) == [
        "node0, rank 0, communication: planned 0-1 and 20, observed 0-1"
    ]
    without = make_plan(backend="mpi", hosts=make_plan()["hosts"][1:])
    assert verification.differences(Plan.from_json(without), make_observed(without)) == []


def test_table_has_a_line_for_each_rank() -> None:
    plan = make_plan()
    lines = verification.table(Plan.from_json(plan), make_observed(plan)).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["host", "rank", "domain"],
        ["node0", "0", "0-1"],
        ["node0", "1", "2-4"],
        ["node1", "2", "7"],
    ]
    assert all(line.endswith("yes") for line in lines[1:])


def test_memory_on_the_nodes_that_a_rank_prefers() -> None:
    """A column where there are several nodes, and a warning where less than nine tenths are on those planned."""
    plan = make_plan()
    reports = make_observed(plan)
    assert "memory" not in verification.table(Plan.from_json(plan), reports)
    plan["hosts"][0]["ranks"][0]["memory"] = {"policy": "preferred", "nodes": [0]}
    plan["hosts"][0]["ranks"][1]["memory"] = {"policy": "interleave", "nodes": [0, 1]}
    reports[0]["memory"] = {"0": 90 * 2**20, "1": 10 * 2**20}
    reports[1] |= {"memory": {"0": 2**30, "1": 2**30}, "huge_pages": 2**29}
    reports[2]["memory"] = {"0": 2**20, "2": 2**30}
    assert verification.memory_elsewhere(Plan.from_json(plan), reports) == []
    head, *lines = verification.table(Plan.from_json(plan), reports).splitlines()
    at = head.index("memory")
    assert [line[at:].split("  ")[0] for line in lines] == [
        "90 MiB on 0, 10 MiB on 1",
        "1.0 GiB on 0, 1.0 GiB on 1",
        "1 MiB on 0, 1.0 GiB on 2",
    ]
    assert [line[head.index("huge pages") :].split("  ")[0] for line in lines] == ["none", "512 MiB", "none"]
    reports[0]["memory"]["1"] += 1
    reports[1]["memory"]["2"] = 2**30
    assert verification.differences(Plan.from_json(plan), reports) == []
    assert [text.split(". ")[0] for text in verification.memory_elsewhere(Plan.from_json(plan), reports)] == [
        "node0, rank 0, memory: planned on 0, observed 90 MiB on 0, 10 MiB on 1",
        "node0, rank 1, memory: planned on 0-1, observed 1.0 GiB on 0, 1.0 GiB on 1, 1.0 GiB on 2",
    ]
    assert verification.table(Plan.from_json(plan), reports).count("NO: memory") == 2
    reports[0]["memory"] = {}
    assert "unknown to the kernel" in verification.table(Plan.from_json(plan), reports)


def test_other_openmp_run_times() -> None:
    observed = make_observed(make_plan())
    gnu = f"{ENV}/lib/python3.11/site-packages/torch/lib/libgomp.so.1"
    assert verification.loaded_besides(observed) == [
        f"OpenMP run time, also loaded by ranks 0-2 and not started: {gnu}"
    ]
    assert verification.warnings(observed) == []
    observed[1]["other_openmp"] = {gnu: True}
    assert verification.loaded_besides(observed) == [
        f"OpenMP run time, also loaded by ranks 0,2 and not started: {gnu}"
    ]
    assert verification.warnings(observed) == [
        f"two OpenMP run times are active in rank 1: torch computes with another one than {gnu}, which has started "
        "threads, too. They compete for the same cores: find the package that brings the library, and leave it out or "
        "set its number of threads to 1"
    ]
