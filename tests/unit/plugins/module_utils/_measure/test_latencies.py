from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import latencies
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.floats(min_value=1.0, max_value=1e6), min_size=1, max_size=40).map(sorted)
SAMPLES = st.lists(VALUES, min_size=1, max_size=5)


def sample(values: list[float], count: int = 0) -> dict[str, Any]:
    return {"values": values, "count": count or len(values)}


@pytest.mark.slow
@given(SAMPLES)
def test_complete_samples_lose_nothing(values: list[list[float]]) -> None:
    found = latencies.merged([sample(each) for each in values])
    assert found == {"values": sorted(itertools.chain(*values)), "count": sum(map(len, values))}


@pytest.mark.slow
@given(SAMPLES, st.integers(2, 20), st.lists(st.integers(1, 9), min_size=5, max_size=5))
def test_thinned_samples_keep_the_ends_the_order_and_the_count(
    values: list[list[float]], most: int, times: list[int]
) -> None:
    samples = [sample(each, len(each) * times[place]) for place, each in enumerate(values)]
    found = latencies.merged(samples, most)
    assert found["count"] == sum(one["count"] for one in samples)
    assert found["values"] == sorted(found["values"])
    assert len(found["values"]) <= max(most, sum(map(len, values)) if len(set(times)) == 1 else most)
    everything = sorted(itertools.chain(*values))
    assert (found["values"][0], found["values"][-1]) == (everything[0], everything[-1])
    assert set(found["values"]) <= set(everything)


@pytest.mark.slow
def test_percentiles_of_a_thinned_sample_are_those_of_all() -> None:
    chance = random.Random(1)
    everything = sorted(chance.lognormvariate(0, 1) for _each in range(100_000))
    thinned = [everything[round(place * 99_999 / 4999)] for place in range(5000)]
    told = {**sample(thinned, 100_000), "total": math.fsum(everything)}
    found = latencies.summary(latencies.merged([told, told]), 2.0)
    assert found
    assert found["count"] == 200_000
    for percent in latencies.PERCENTILES:
        assert found[f"p{percent}"] == pytest.approx(2 * everything[1000 * percent], rel=0.01)
    assert found["mean"] == pytest.approx(2 * math.fsum(everything) / 100_000)


def test_an_instance_weighs_as_its_requests_do() -> None:
    # One instance answered 900 requests in 1 ms each, the other 100 in 10 ms; both kept 100 latencies.
    found = latencies.summary(latencies.merged([sample([1.0] * 100, 900), sample([10.0] * 100, 100)]))
    assert found
    assert found["mean"] == pytest.approx(1.9, abs=0.02)
    assert (found["p50"], found["p99"]) == (1.0, 10.0)
    assert latencies.summary(latencies.merged([])) is None


PARTS = st.lists(
    st.tuples(st.floats(1, 1e6), st.floats(0, 0.5), st.floats(0, 2)).map(
        lambda one: {"value": one[0], "low": one[0] * (1 - one[1]), "high": one[0] * (1 + one[2])}
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(PARTS)
def test_instances_side_by_side(parts: list[dict[str, float | None]]) -> None:
    found = latencies.together(parts)
    assert found
    value, low, high = found["value"], found["low"], found["high"]
    assert value is not None
    assert low is not None
    assert high is not None
    assert value == pytest.approx(math.fsum(part["value"] or 0 for part in parts))
    assert low <= value * (1 + 1e-9)
    assert high >= value * (1 - 1e-9)
    # Independent errors add up to less than their sum, and to no less than the largest.
    halves = [(part["high"] or 0) - (part["value"] or 0) for part in parts]
    assert max(halves) * (1 - 1e-6) - 1e-6 <= high - value <= math.fsum(halves) * (1 + 1e-6) + 1e-6


def test_an_interval_that_is_not_known() -> None:
    assert latencies.together([]) is None
    parts: list[dict[str, float | None]] = [
        {"value": 2.0, "low": 1.0, "high": None},
        {"value": 3.0, "low": 3.0, "high": 4.0},
    ]
    assert latencies.together(parts) == {"value": 5.0, "low": 4.0, "high": None}


def test_intervals_cover_the_truth() -> None:
    # 95 % of such intervals have the throughput in them; of 400 hardly fewer than 90 %.
    chance = random.Random(2)
    hits = 0
    for _each in range(400):
        errors = [chance.gauss(0, 1) for _part in range(4)]
        parts = [{"value": 100 + e, "low": 100 + e - 1.96, "high": 100 + e + 1.96} for e in errors]
        found = latencies.together(parts)
        assert found
        hits += (found["low"] or 0) <= 400 <= (found["high"] or 0)
    assert hits > 360
