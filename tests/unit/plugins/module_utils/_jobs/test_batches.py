from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.batches import Batch
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("before", "ranks", "after"),
    [
        (Batch(3, 1, 16), 2, Batch(2, 2, 12)),  # 48 samples
        (Batch(4, 3, 8), 2, Batch(2, 6, 8)),
        (Batch(2, 6, 8), 4, Batch(4, 3, 8)),
        (Batch(4, 1, 16), 3, Batch(3, 1, 21)),  # 64 samples become 63, and a divisor of 21 below 16 would be 7
        (Batch(5, 1, 1), 4, Batch(4, 1, 1)),
        (Batch(4, 3, 0), 2, Batch(2, 6, 0)),
        (Batch(3, 1, 0), 2, Batch(2, 2, 0)),
        (Batch(1, 1, 1), 8, Batch(8, 1, 1)),
    ],
)
def test_another_number_of_ranks(before: Batch, ranks: int, after: Batch) -> None:
    assert batches.kept(before, ranks) == after


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 64), st.integers(1, 64))
def test_the_size_is_kept_where_it_can_be(ranks: int, accumulation: int, per_device: int, other: int) -> None:
    before = Batch(ranks, accumulation, per_device)
    after = batches.kept(before, other)
    assert after.per_device * 2 <= before.per_device * 3
    assert after.ranks == other
    if before.size % other == 0:
        assert after.size == before.size
    elif before.size >= other:
        assert abs(after.size - before.size) <= other / 2
    if ranks == other:
        assert after == before


def test_what_is_said_of_it() -> None:
    before, asked = Batch(3, 1, 16), Batch(2, 1, 16)
    assert batches.change(before, before, before, 10) == ""
    assert batches.change(before, Batch(2, 2, 12), asked, 10) == (
        "the global batch stays as it was, with 2 steps of accumulation of 12 samples"
    )
    assert batches.change(before, asked, asked, 10) == (
        "the global batch is 2/3 of what it was (32 samples instead of 48), so 160 samples are trained on again"
    )
    assert batches.change(asked, before, before, 10).endswith("so 160 samples are left out")
    assert (
        batches.change(Batch(3, 1, 0), Batch(2, 1, 0), Batch(2, 1, 0), 10) == "the global batch is 2/3 of what it was"
    )


def test_what_arguments_and_an_earlier_run_tell() -> None:
    args = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}
    assert batches.of_arguments(args, 3) == Batch(3, 2, 4)
    assert batches.of_arguments({"gradient_accumulation_steps": "auto"}, 3) == Batch(3, 1, 0)
    assert Batch(3, 2, 4).arguments() == args
    assert Batch(3, 2, 0).arguments() == {"gradient_accumulation_steps": 2}
    assert batches.of_run({"ranks": 5, "accumulation": None}, Batch(3, 2, 4)) == Batch(5, 2, 4)
