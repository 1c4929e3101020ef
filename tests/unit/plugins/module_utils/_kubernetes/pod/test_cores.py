"""Which CPUs a pod has: its own, most of a node's, or none of its own; and what its ranks are set to then."""

from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Cpu, Topology, build
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import cores
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.cores import FLOATING, MOST, OWN, Cpus
from hypothesis import given
from hypothesis import strategies as st


def machine(cores: int, nodes: int, allowed: frozenset[int] | None = None, quota: float | None = None) -> Topology:
    """Return a machine with one thread a core and as many cores on each NUMA node, seen from a pod."""
    cpus = tuple(Cpu(number, number, number * nodes // cores, number * nodes // cores, True) for number in range(cores))
    return build(cpus, allowed, quota=quota)


@pytest.mark.parametrize(
    ("allowed", "quota", "state"),
    [(8, None, OWN), (8, 8.0, OWN), (8, 16.0, OWN), (16, 15.0, MOST), (64, 33.0, MOST), (64, 32.0, FLOATING)],
)
def test_states(allowed: int, quota: float | None, state: str) -> None:
    assert Cpus(allowed, quota).state == state


@given(st.integers(1, 256), st.floats(0.5, 256))
def test_two_pods_alike_are_never_pinned_to_the_same_cpus(allowed: int, quota: float) -> None:
    """Without CPUs of their own, two pods that fit a node together are both not pinned."""
    if 2 * quota <= allowed:
        assert Cpus(allowed, quota).state == FLOATING


def test_a_pod_with_cpus_of_its_own() -> None:
    seen = machine(16, 2, frozenset({2, 3, 10, 11}))
    cpus = cores.cpus_of(seen, None)
    assert cpus == Cpus(4, None)
    made = cores.allocate_pod(seen, Request(), cpus)
    assert [rank["compute_cpus"] for rank in made["ranks"]] == [[2, 3], [10, 11]], "a rank for each NUMA node"
    assert made["env"]["OMP_NUM_THREADS"] == "2"
    assert cores.warning(cpus, 2, 2) == []
    assert cores.describe(cpus, made, seen).startswith("CPUs 2-3,10-11 (own): 2 rank(s) of 2 thread(s)")
    (warning,) = cores.warning(cpus, 1, 2)
    assert "this pod starts 2 rank(s) and its object declares 1: set numa_nodes" in warning


@pytest.mark.parametrize("comm_cores", [0, 1])
def test_a_pod_that_floats(comm_cores: int) -> None:
    seen = machine(16, 2, quota=4)
    cpus = cores.cpus_of(seen, 4)
    made = cores.allocate_pod(seen, Request(1, comm_cores=comm_cores), cpus)
    assert made["threads_per_rank"] == 4 - comm_cores
    assert [rank["domain_cpus"] for rank in made["ranks"]] == [list(range(16))]
    everything = {**made["env"], **made["ranks"][0]["env"]}
    assert everything["KMP_AFFINITY"] == "disabled"
    assert not {"KMP_HW_SUBSET", "I_MPI_PIN_DOMAIN"} & set(everything), "names places"
    (warning,) = cores.warning(cpus, 1, 1)
    assert cores.describe(cpus, made, seen).startswith("CPUs any of 16 (floating, time of 4): 1 rank(s)")
    assert warning.startswith("this pod floats: it may use the time of 4 CPUs, on any of 16")
    assert "cpuManagerPolicy: static" in warning


def test_a_pod_with_most_of_a_node() -> None:
    seen = machine(16, 2, quota=15)
    cpus = cores.cpus_of(seen, 15)
    made = cores.allocate_pod(seen, Request(2), cpus)
    assert made["threads_per_rank"] == 7
    assert all(len(rank["domain_cpus"]) == 7 for rank in made["ranks"])
    assert "its ranks are pinned" in cores.warning(cpus, 2, 2)[0]
