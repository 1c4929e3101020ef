from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._jobs import loss_weight

WEIGHT = {"model": "BertForSequenceClassification", "ranks": 1, "accumulation": 1, "uneven": False}


def note(**changed: object) -> str:
    return loss_weight.note({"loss_weight": {**WEIGHT, **changed}})


def test_nothing_is_noted_where_nothing_is_known() -> None:
    assert loss_weight.note({}) == loss_weight.note({"loss_weight": None}) == note() == ""


def test_by_what_losses_are_multiplied() -> None:
    assert "are 8 times too large (4 ranks, 2 accumulation steps):" in note(ranks=4, accumulation=2)
    assert "are 4 times too large (4 ranks):" in note(ranks=4)
    assert "are 2 times too large (2 accumulation steps):" in note(accumulation=2)
    assert "trainer.model_accepts_loss_kwargs = False" in note(ranks=2)


def test_rows_that_weigh_more() -> None:
    assert note(uneven=True).startswith("rows in small batches weigh more: batch_rebalance")
    assert "; rows in small batches" in note(uneven=True, ranks=2)
