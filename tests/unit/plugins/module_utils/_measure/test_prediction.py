"""What exchanging gradients will cost."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.prediction import (
    BUCKET,
    FIRST_BUCKET,
    buckets,
    interpolated,
    predict,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.slow
@given(st.integers(1, 10**11))
def test_buckets_hold_all_gradients(size: int) -> None:
    found = buckets(size)
    assert sum(found) == size
    assert found[0] <= FIRST_BUCKET
    assert all(0 < bucket <= BUCKET for bucket in found)
    assert sum(bucket < BUCKET for bucket in found[1:]) <= 1


POINTS = st.lists(st.tuples(st.integers(1, 10**9), st.floats(1e-6, 10)), min_size=1, unique_by=lambda point: point[0])


@pytest.mark.slow
@given(POINTS, st.integers(1, 10**9))
def test_times_lie_between_those_of_the_neighbours(points: list[tuple[int, float]], size: int) -> None:
    found = interpolated(points, size)
    below = [time for other, time in sorted(points) if other <= size][-1:]
    above = [time for other, time in sorted(points) if other >= size][:1]
    if below and above:
        assert min(below + above) * (1 - 1e-9) <= found <= max(below + above) * (1 + 1e-9)
    elif above:
        assert found == above[0]
    else:
        largest, time = max(points)
        assert found == pytest.approx(time * size / largest)


def all_reduce(*points: tuple[int, float], backend: str = "gloo", tool: str = "torch") -> list[dict[str, Any]]:
    row = {"tool": tool, "backend": backend, "operation": "all_reduce", "ranks": 4}
    return [{**row, "bytes": size, "microseconds": seconds * 1e6} for size, seconds in points]


def test_a_model_of_three_buckets() -> None:
    rows = all_reduce((FIRST_BUCKET, 0.01), (BUCKET, 0.25))
    # IMB's and another backend's times are not those of DistributedDataParallel.
    rows += all_reduce((BUCKET, 9.0), tool="imb", backend="mpi") + all_reduce((BUCKET, 9.0), backend="mpi")
    parameters = (FIRST_BUCKET + 2 * BUCKET) // 4
    found = predict(rows, parameters, "gloo", step_compute_seconds=0.51)
    assert found is not None
    assert (found["bytes"], found["communication_seconds"], found["share"]) == (4 * parameters, 0.51, 0.5)
    assert "13.4 million parameters, 53.5 MB of gradients in each step: 0.51 s of all_reduce with gloo" in found["text"]
    assert "at most 50% of a step that computes for 0.51 s" in found["text"]


def test_compressed_gradients_are_half_as_many_bytes() -> None:
    found = predict(all_reduce((BUCKET, 0.25), backend="mpi"), 10**6, "mpi", "bf16")
    assert found is not None
    assert (found["bytes"], found["share"]) == (2 * 10**6, None)


def test_without_all_reduce_there_is_no_prediction() -> None:
    assert predict(all_reduce((4096, 0.1), backend="mpi"), 10**6, "gloo") is None


def test_it_says_when_it_reaches_beyond_what_was_measured() -> None:
    found = predict(all_reduce((4096, 0.001), (1 << 20, 0.01)), 10**8, "gloo")
    assert found is not None
    assert "Buckets of 25 MiB were not measured, the largest size was 1.05 MB" in found["text"]
