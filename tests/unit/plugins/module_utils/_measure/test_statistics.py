from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import statistics
from hypothesis import given
from hypothesis import strategies as st

SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=9)


def test_nothing_has_no_spread() -> None:
    assert statistics.spread([]) is None
    assert statistics.of_steps([]) is None
    assert statistics.ratio(None, statistics.spread([1.0])) is None
    assert statistics.ratio(statistics.spread([1.0]), statistics.spread([0.0])) is None
    assert statistics.scaled(None, 2) is None
    assert statistics.inverse(None, 2) is None
    with pytest.raises(ValueError, match=r"^there is no percentile of no values$"):
        statistics.percentile([], 50)


def test_known_figures() -> None:
    assert statistics.spread([3.0, 1.0, 8.0]) == {"median": 3.0, "low": 1.0, "high": 8.0, "count": 3}
    one, other = statistics.spread([4.0, 6.0]), statistics.spread([2.0])
    assert statistics.ratio(one, other) == {"median": 2.5, "low": 2.0, "high": 3.0}
    assert statistics.scaled(one, 2) == {"median": 10.0, "low": 8.0, "high": 12.0, "count": 2}
    assert statistics.inverse(one, 12) == {"median": 2.4, "low": 2.0, "high": 3.0, "count": 2}
    assert statistics.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    # One step that took long, as one in which a checkpoint is written, is not the high of a run.
    steps = statistics.of_steps([*([1.0] * 19), 60.0])
    assert steps == {"median": 1.0, "low": 1.0, "high": 1.0, "mean": 3.95, "count": 20}


@given(SPEEDS)
def test_a_median_lies_between_the_ends(values: list[float]) -> None:
    found = statistics.spread(values)
    assert found
    assert found["low"] <= found["median"] <= found["high"]
    assert found["count"] == len(values)


@given(SPEEDS, SPEEDS)
def test_a_ratio_lies_between_its_ends(one: list[float], other: list[float]) -> None:
    found = statistics.ratio(statistics.spread(one), statistics.spread(other))
    assert found
    assert found["low"] <= found["median"] <= found["high"]


@given(SPEEDS)
def test_a_ratio_with_itself_has_the_median_one(values: list[float]) -> None:
    found = statistics.ratio(statistics.spread(values), statistics.spread(values))
    assert found
    assert found["median"] == 1.0


@given(SPEEDS, st.floats(min_value=0, max_value=100), st.floats(min_value=0, max_value=100))
def test_percentiles_are_ordered(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert min(values) <= statistics.percentile(values, low) <= max(values)
    # Between two neighbours a float may be rounded either way.
    assert statistics.percentile(values, low) <= statistics.percentile(values, high) * (1 + 1e-12)


@given(SPEEDS, st.floats(min_value=1e-3, max_value=1e6))
def test_a_time_is_shortest_at_the_highest_speed(values: list[float], work: float) -> None:
    found = statistics.inverse(statistics.spread(values), work)
    assert found
    assert found["low"] <= found["median"] * (1 + 1e-12)
    assert found["median"] <= found["high"] * (1 + 1e-12)
