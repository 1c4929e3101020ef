from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated
from hypothesis import given
from hypothesis import strategies as st

SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=9)


def test_nothing_has_no_spread() -> None:
    assert repeated.spread([]) is None
    assert repeated.of_steps([]) is None
    assert repeated.ratio(None, repeated.spread([1.0])) is None
    assert repeated.ratio(repeated.spread([1.0]), repeated.spread([0.0])) is None
    assert repeated.scaled(None, 2) is None
    assert repeated.inverse(None, 2) is None
    with pytest.raises(ValueError, match=r"^there is no percentile of no values$"):
        repeated.percentile([], 50)


def test_known_figures() -> None:
    assert repeated.spread([3.0, 1.0, 8.0]) == {"median": 3.0, "low": 1.0, "high": 8.0, "count": 3}
    one, other = repeated.spread([4.0, 6.0]), repeated.spread([2.0])
    assert repeated.ratio(one, other) == {"median": 2.5, "low": 2.0, "high": 3.0}
    assert repeated.scaled(one, 2) == {"median": 10.0, "low": 8.0, "high": 12.0, "count": 2}
    assert repeated.inverse(one, 12) == {"median": 2.4, "low": 2.0, "high": 3.0, "count": 2}
    assert repeated.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    # One step that took long, as one in which a checkpoint is written, is not the high of a run.
    steps = repeated.of_steps([*([1.0] * 19), 60.0])
    assert steps == {"median": 1.0, "low": 1.0, "high": 1.0, "mean": 3.95, "count": 20}


@given(SPEEDS)
def test_a_median_lies_between_the_ends(values: list[float]) -> None:
    found = repeated.spread(values)
    assert found
    assert found["low"] <= found["median"] <= found["high"]
    assert found["count"] == len(values)


@given(SPEEDS, SPEEDS)
def test_a_ratio_lies_between_its_ends(one: list[float], other: list[float]) -> None:
    found = repeated.ratio(repeated.spread(one), repeated.spread(other))
    assert found
    assert found["low"] <= found["median"] <= found["high"]


@given(SPEEDS)
def test_a_ratio_with_itself_has_the_median_one(values: list[float]) -> None:
    found = repeated.ratio(repeated.spread(values), repeated.spread(values))
    assert found
    assert found["median"] == 1.0


@given(SPEEDS, st.floats(min_value=0, max_value=100), st.floats(min_value=0, max_value=100))
def test_percentiles_are_ordered(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert min(values) <= repeated.percentile(values, low) <= max(values)
    # Between two neighbours a float may be rounded either way.
    assert repeated.percentile(values, low) <= repeated.percentile(values, high) * (1 + 1e-12)


@given(SPEEDS, st.floats(min_value=1e-3, max_value=1e6))
def test_a_time_is_shortest_at_the_highest_speed(values: list[float], work: float) -> None:
    found = repeated.inverse(repeated.spread(values), work)
    assert found
    assert found["low"] <= found["median"] * (1 + 1e-12)
    assert found["median"] <= found["high"] * (1 + 1e-12)
