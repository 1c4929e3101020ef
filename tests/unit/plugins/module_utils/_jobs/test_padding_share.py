from __future__ import annotations

import random
from statistics import fmean
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import padding_share

COMPUTED = {"positions": 1000, "tokens": 410, "not_computed": 0}


def test_what_was_padding_and_computed() -> None:
    assert padding_share.shares(COMPUTED) == (0.59, 0.59)
    assert padding_share.shares({**COMPUTED, "not_computed": 500}) == (0.59, 0.09)


def test_nothing_was_counted() -> None:
    for training in ({}, {"positions": 0, "tokens": 0, "not_computed": 0}, {"positions": "5", "tokens": None}):
        assert padding_share.shares(training) is None
        assert padding_share.shown(training) is None
        assert padding_share.note(training) == ""


def test_shares_as_a_person_reads_them() -> None:
    assert padding_share.shown(COMPUTED) == "59% of the positions in batches"
    some = "59% of the positions in batches, 30% computed"
    assert padding_share.shown({**COMPUTED, "not_computed": 295}) == some
    assert padding_share.shown({**COMPUTED, "not_computed": 590}) == "59% of the positions in batches, not computed"
    few = "59% of the positions in batches, less than 1% computed"
    assert padding_share.shown({**COMPUTED, "not_computed": 587}) == few
    assert padding_share.shown({**COMPUTED, "tokens": 1000}) is None


def test_much_padding_that_was_computed_is_noted() -> None:
    note = padding_share.note(COMPUTED)
    assert note.startswith("59% of the positions that rank 0 computed were padding:")
    assert "--pad_to_max_length False" in note and "--train_sampling_strategy group_by_length" in note
    assert "amx tune JOB --vary sampling" in note
    assert padding_share.note({**COMPUTED, "not_computed": 590}) == ""
    assert padding_share.note({**COMPUTED, "tokens": 810}) == ""
    # 90 of the 500 positions that were computed
    assert padding_share.note({**COMPUTED, "not_computed": 300}).startswith("41% of the positions")


# 100 batches, 8 +- 2 positions each.
SPREAD = {"positions": 800, "tokens": 800, "not_computed": 0, "batches": 100, "squares": 100 * (64 + 4)}


@pytest.mark.slow
def test_waiting_for_the_longest_of_all_ranks() -> None:
    two = padding_share.waiting({**SPREAD, "sums": {"ranks": 2, "accumulation": 1}})
    # The larger of two numbers of a normal distribution is on average 0.5642 standard deviations above the mean.
    assert two == pytest.approx(0.25 * 0.5642 / (1 + 0.25 * 0.5642), rel=0.06)
    drawn = random.Random(1)
    longest = fmean(max(drawn.gauss(8, 2) for _ in range(16)) for _ in range(20000))
    assert padding_share.waiting({**SPREAD, "sums": {"ranks": 16, "accumulation": 1}}) == pytest.approx(
        1 - 8 / longest, rel=0.03
    )
    longest = fmean(max(sum(drawn.gauss(8, 2) for _ in range(4)) for _ in range(16)) for _ in range(20000))
    assert padding_share.waiting({**SPREAD, "sums": {"ranks": 16, "accumulation": 4}}) == pytest.approx(
        1 - 32 / longest, rel=0.03
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"sums": {"ranks": 1, "accumulation": 1}},
        {"sums": None},
        {"sums": {"ranks": 4, "accumulation": 1}, "batches": 19},
    ],
)
def test_waiting_that_is_not_known(changed: dict[str, Any]) -> None:
    assert padding_share.waiting({**SPREAD, **changed}) is None
    assert padding_share.waiting_shown({**SPREAD, **changed}) is None
    assert padding_share.waiting_note({**SPREAD, **changed}) == ""


def test_waiting_as_a_person_reads_it() -> None:
    sixteen = {**SPREAD, "sums": {"ranks": 16, "accumulation": 1}}
    assert padding_share.waiting_shown(sixteen) == "about 31% of computing, for the rank with the longest rows"
    note = padding_share.waiting_note(sixteen)
    assert note.startswith("ranks wait about 31% of their computing") and "--vary sampling" in note
    alike = {**sixteen, "squares": 100 * 64}
    assert (padding_share.waiting_shown(alike), padding_share.waiting_note(alike)) == (None, "")
