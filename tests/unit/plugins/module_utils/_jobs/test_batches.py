from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.batches import Batch
from hypothesis import given
from hypothesis import strategies as st
from support.runs import run


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


@pytest.mark.slow
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
    dashed = {"gradient-accumulation-steps": "2", "per-device-train-batch-size": 4}
    assert batches.of_arguments(dashed, 3) == Batch(3, 2, 4)
    assert Batch(3, 2, 4).arguments() == args
    assert Batch(3, 2, 0).arguments() == {"gradient_accumulation_steps": 2}
    assert batches.of_run({"ranks": 5, "accumulation": None}, Batch(3, 2, 4)) == Batch(5, 2, 4)


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 24), st.booleans())
def test_a_global_batch_is_divided_among_any_number_of_ranks(share: int, ranks: int, most: int, is_limit: bool) -> None:
    size = share * ranks
    job = run(global_batch=f"<={size}" if is_limit else size, args={"per-device-train-batch-size": most, "seed": 1}).job
    for number in range(1, size + 1):
        batch = batches.of_job(job, number)
        assert batch.ranks == number and 1 <= batch.per_device <= most
        assert batches.arguments(job, number) == {"seed": 1, **batch.arguments()}
        refused = batches.refusal(job.global_batch, [number])
        if is_limit:
            assert batch.size <= size and 2 * batch.per_device >= min(most, size // number) and not refused
        else:  # the nearest, where a restart has fewer ranks than the plan
            assert abs(batch.size - size) <= number / 2 and bool(refused) == (size % number > 0)
    assert is_limit or batches.of_job(job, ranks).size == size
    assert "less than one row" in batches.refusal(job.global_batch, [size + 1])


@pytest.mark.parametrize(
    ("wanted", "ranks", "said"),
    [
        (
            64,
            [3, 3, 3],
            '64 samples cannot be divided among 9 ranks: set global_batch 63 or 72, or global_batch "<=64"',
        ),
        (
            64,
            [4, 4, 4, 4, 4, 4],
            "64 samples cannot be divided among 24 ranks: set hosts 1 or 2 or 4, or global_batch 48 or 72, "
            'or global_batch "<=64"',
        ),
        (
            66,
            [4, 4, 4],
            "66 samples cannot be divided among 12 ranks: set ranks_per_node 1 or 2, or global_batch 60 or 72, "
            'or global_batch "<=66"',
        ),
        (
            "<=6",
            [4, 4],
            "a rank would have less than one row: 6 samples for 8 ranks: set ranks_per_node 3, or hosts 1, or "
            "global_batch 8",
        ),
        (64, [1, 2], '64 samples cannot be divided among 3 ranks: set global_batch 63 or 66, or global_batch "<=64"'),
        (64, [2, 4, 2], ""),
        ("<=64", [3, 3, 3], ""),
        (None, [3], ""),
        (64, [], ""),
    ],
)
def test_ranks_that_do_not_divide_it(wanted: int | str | None, ranks: list[int], said: str) -> None:
    refused = batches.refusal(wanted, ranks)
    assert refused.startswith(f"global_batch: {said}") if said else refused == ""


@pytest.mark.parametrize(
    ("limit", "ranks", "batch"),
    [(64, 1, (8, 8)), (64, 3, (3, 7)), (64, 7, (1, 8)), (512, 7, (9, 8)), (512, 11, (9, 5)), (512, 200, (1, 2))],
)
def test_a_limit_makes_no_step_of_many_small_batches(limit: int, ranks: int, batch: tuple[int, int]) -> None:
    """A rank's 73 samples would be taken one by one, for 7 ranks and 512."""
    assert batches.of_job(run(global_batch=f"<={limit}").job, ranks) == Batch(ranks, *batch)


def test_the_line_of_the_plan() -> None:
    args = {"per_device_train_batch_size": 16}
    assert batches.text(run(args=args).job, 3) == ("Each step trains on a global batch of 48 samples (3 ranks x 16).")
    assert batches.text(run().job, 1) == "Each step trains on a global batch of 8 samples (1 rank x 8)."
    assert batches.text(run(global_batch="<=64").job, 6) == (
        "Each step trains on a global batch of 60 samples (6 ranks x 5 at once x 2 accumulated), "
        "from global_batch: <=64."
    )
