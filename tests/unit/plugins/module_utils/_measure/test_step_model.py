# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.step_model import (
    Link,
    Moving,
    Weight,
    all_reduce,
    buckets,
    step_seconds,
    transformer,
)

# docs/performance.md, "Two hosts by the speed of their link": shares of the unconnected ranks' speed.
MEASURED = {
    "mpi": {None: 0.915, 2e9: 0.850, 1e9: 0.774, 500e6: 0.702},
    "gloo": {None: 0.894, 2e9: 0.808, 1e9: 0.700, 500e6: 0.545},
}
ALONE, UPDATE = 1.62, 0.15
# Share of the word embedding's gradient that two ranks' 8192 tokens touch: backend mpi moves no more of it.
TOUCHED = {"mpi": 0.3, "gloo": 1.0}
# Bytes of a TCP segment in a frame of 1514, which is what `tc` counts.
PAYLOAD = 1448 / 1514


def bert(link: Link, per_byte: float, touched: float) -> float:
    """Return the share of the unconnected speed that the model of a step says for the measured BERT of 23 million."""
    parts = buckets(transformer(hidden=384, layers=6, vocabulary=round(30522 * touched), layer_weights=12 * 384 * 384))
    moving = [all_reduce(part.size, 2, 1, link, per_byte, True) for part in parts]
    return ALONE / step_seconds(ALONE - UPDATE, [part.work for part in parts], moving, UPDATE, False)


@pytest.mark.parametrize("backend", MEASURED)
def test_is_within_a_tenth_of_what_was_measured(backend: str) -> None:
    rows = MEASURED[backend]
    # What a byte costs the processor is the one thing that is taken from the rows: from that without a limit.
    per_byte = ALONE * (1 / rows[None] - 1) / (43e6 + 47e6 * TOUCHED[backend])
    for rate, share in rows.items():
        link = Link((rate or 1e13) / 8 * PAYLOAD)
        assert bert(link, per_byte, TOUCHED[backend]) == pytest.approx(share, rel=0.1), f"{backend} at {rate}"


def test_overlapping_gives_at_most_what_is_documented() -> None:
    rows = MEASURED["mpi"]
    measured = ALONE * (1 / rows[None] - 1) / (43e6 + 47e6 * TOUCHED["mpi"])
    shares = [bert(Link(1e9 / 8 * PAYLOAD), per_byte, TOUCHED["mpi"]) for per_byte in (measured, 0.0)]
    assert shares == pytest.approx([0.84, 0.87], abs=0.005)


def test_what_overlaps_costs_nothing() -> None:
    # The second half of the backward pass hides the first bucket, and nothing the second.
    step = step_seconds(3.0, [0.5, 0.5], [Moving(0.9, 0.0), Moving(0.4, 0.0)], 0.1, False)
    assert step == pytest.approx(3.0 + 0.4 + 0.1)


def test_buckets_wait_for_each_other() -> None:
    step = step_seconds(3.0, [0.5, 0.5], [Moving(1.5, 0.0), Moving(0.4, 0.0)], 0.0, False)
    assert step == pytest.approx(1.0 + 1.0 + 1.5 + 0.4)


def test_a_communication_core_takes_nothing_from_computing() -> None:
    parts = [Moving(0.6, 0.4), Moving(0.1, 0.05)]
    beside, apart = (step_seconds(3.0, [0.5, 0.5], parts, 0.0, has_core) for has_core in (False, True))
    assert apart == pytest.approx(3.1)
    assert beside == pytest.approx(3.1 + 0.4)


def test_a_processor_that_moves_bytes_gets_half_a_core_beside_computing() -> None:
    # 1 s of a processor beside 1 s of computing takes 2 s, after which nothing is left of either.
    assert step_seconds(3.0, [0.5, 0.5], [Moving(0.1, 1.0), Moving(0.0, 0.0)], 0.0, False) == pytest.approx(4.0)


def test_one_host_moves_nothing() -> None:
    assert all_reduce(1 << 20, 1, 1, Link(1e9), 1e-9, True) == Moving(0.0, 0.0)
    assert step_seconds(1.0, [1.0], [Moving(0.0, 0.0)], 0.5, False) == pytest.approx(1.5)


def test_a_hierarchy_sends_each_byte_once() -> None:
    flat, within = (all_reduce(8 << 20, 4, 8, Link(1e9, 0.0), 0.0, first) for first in (False, True))
    assert flat.wire == pytest.approx(8 * within.wire)
    assert within.wire == pytest.approx(2 * 3 / 4 * (8 << 20) / 1e9)


def test_buckets_are_as_those_of_pytorch() -> None:
    mib = 1 << 20
    parts = buckets(
        [Weight(mib // 2, 0.1), Weight(mib, 0.2), Weight(20 * mib, 0.3), Weight(30 * mib, 0.4), Weight(7, 0)]
    )
    assert [part.size for part in parts] == [mib * 3 // 2, 50 * mib, 7]
    assert [part.work for part in parts] == pytest.approx([0.3, 0.7, 0])


def test_as_many_buckets_are_moved_as_computed() -> None:
    with pytest.raises(ValueError, match="1 buckets are computed and 2 moved"):
        step_seconds(1.0, [1.0], [Moving(1, 0), Moving(1, 0)], 0.0, False)
