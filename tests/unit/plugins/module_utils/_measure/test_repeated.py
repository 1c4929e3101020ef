from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated
from hypothesis import given
from hypothesis import strategies as st

SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=9)


def test_nothing_has_no_spread() -> None:
    assert repeated.spread([]) is None
    assert repeated.ratio(None, repeated.spread([1.0])) is None
    assert repeated.ratio(repeated.spread([1.0]), repeated.spread([0.0])) is None
    assert repeated.scaled(None, 2) is None


def test_known_figures() -> None:
    assert repeated.spread([3.0, 1.0, 8.0]) == {"median": 3.0, "low": 1.0, "high": 8.0, "count": 3}
    one, other = repeated.spread([4.0, 6.0]), repeated.spread([2.0])
    assert repeated.ratio(one, other) == {"median": 2.5, "low": 2.0, "high": 3.0}
    assert repeated.scaled(one, 2) == {"median": 10.0, "low": 8.0, "high": 12.0, "count": 2}


@given(SPEEDS, SPEEDS)
def test_a_ratio_lies_between_its_ends(one: list[float], other: list[float]) -> None:
    found = repeated.ratio(repeated.spread(one), repeated.spread(other))
    assert found
    assert found["low"] <= found["median"] <= found["high"]
