from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._measure import repeated


def test_nothing_has_no_spread() -> None:
    assert repeated.spread([]) is None
    assert repeated.ratio(None, repeated.spread([1.0])) is None
    assert repeated.ratio(repeated.spread([1.0]), repeated.spread([0.0])) is None
    assert repeated.scaled(None, 2) is None
