from __future__ import annotations

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
    assert padding_share.note({**COMPUTED, "not_computed": 590}) == ""
    assert padding_share.note({**COMPUTED, "tokens": 810}) == ""
    # 90 of the 500 positions that were computed
    assert padding_share.note({**COMPUTED, "not_computed": 300}).startswith("41% of the positions")
