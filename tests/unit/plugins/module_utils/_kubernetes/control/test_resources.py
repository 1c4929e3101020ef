"""What a pod requests of its node: the laws, and figures that can be calculated by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import quantities, resources
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.quantities import GI, MI
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "value"),
    [("128Gi", 128 * GI), ("500m", Fraction(1, 2)), ("1.5", Fraction(3, 2)), ("2k", 2000), (4, 4), ("1G", 10**9)],
)
def test_quantities(text: object, value: Fraction | int) -> None:
    assert quantities.number(text) == value


@pytest.mark.parametrize("text", ["", "128 GB", "-1", "1e3", True, None, "Gi"])
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(ValueError, match="is not a quantity such as 128Gi"):
        quantities.number(text)


@pytest.mark.slow
@given(st.integers(0, 1 << 45))
def test_memory_is_written_without_a_byte_more(size: int) -> None:
    written = quantities.number(quantities.memory(size))
    assert size - MI < written <= size


@pytest.mark.slow
@given(st.integers(2, 1024), st.integers(2 * GI, 1 << 43))
def test_pods_stay_below_their_node(cpus: int, memory: int) -> None:
    kept, kept_memory = resources.reserved_cpus(cpus), resources.reserved_memory(memory)
    made = resources.of_pod(cpus, memory, kept, kept_memory, 0)
    assert 1 <= made.cpus < cpus
    assert made.cpus + kept == cpus
    assert 0 < made.memory <= memory - kept_memory
    amounts = made.of_container()
    assert amounts["requests"] == amounts["limits"], "the quality of service would not be guaranteed"
    assert amounts["requests"]["cpu"].isdigit(), "the static CPU manager gives whole CPUs only"


@pytest.mark.slow
@given(st.integers(2, 1023))
def test_a_larger_node_gives_a_pod_no_less(cpus: int) -> None:
    def left(of: int) -> int:
        return of - resources.reserved_cpus(of)

    assert left(cpus) <= left(cpus + 1)


@pytest.mark.slow
@given(st.integers(1, 16), st.integers(0, 64), st.integers(GI, 1 << 43))
def test_shm_leaves_memory_to_the_ranks(ranks: int, workers: int, memory: int) -> None:
    shm = resources.shm_of_job(ranks, workers, memory)
    assert MI <= shm <= memory // 4
    assert shm <= resources.shm_of_job(ranks + 1, workers + 1, memory)


def test_figures_of_a_node() -> None:
    # 6 % of the first CPU, 1 % of the next, 0.5 % of two more, 0.25 % of 196, and half a CPU: 1.07, so 2.
    assert resources.reserved_cpus(200) == 2
    # 25 % of 4 GiB, 20 % of 4, 10 % of 8 and 6 % of 112: 9.32 GiB, and 356 MiB.
    assert resources.reserved_memory(128 * GI) == pytest.approx(9.32 * GI + 356 * MI, abs=1)


def test_what_leaves_no_cpu() -> None:
    with pytest.raises(ValueError, match="cpus: 4 of a node, of which its kubelet and system keep 4"):
        resources.of_pod(4, 8 * GI, 4, GI, 0)
