"""Strategies that are not tried: what a job's arguments and its first training show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import sampling, trainings
from support import runs

ALL = ["random", "group_by_length", "batch_rebalance"]
# A training whose rows were drawn at random, half of them padding, on two ranks.
PADDED = {"samples": 640, "positions": 8000, "tokens": 4000, "not_computed": 0, "batches": 40, "squares": 1600000}


def left_out(
    settings: list[str] = ALL, ranks: int = 2, epoch: float = 2.0, accumulation: int = 1, step: int = 0, **changed: Any
) -> dict[str, str]:
    job = runs.run(args={"gradient_accumulation_steps": accumulation}).job
    training = {**PADDED, "sums": {"ranks": ranks, "accumulation": accumulation}, **changed}
    progress = {"epoch": epoch, "training": {name: value for name, value in training.items() if value is not None}}
    progress.update({"step": step, "samples_per_step": 8 * ranks * accumulation})
    return sampling.left_out(settings, job, {"plan": {"hosts": [{"ranks": [{}] * ranks}]}, "progress": progress})


def test_all_are_tried_where_nothing_speaks_against_them() -> None:
    assert left_out() == left_out(epoch=3.01) == left_out(positions=None) == {}
    assert sampling.strategies("sequential") == ["sequential", *ALL]
    assert sampling.strategies("group_by_length") == ["group_by_length", "random", "batch_rebalance"]


def test_batches_of_one_rank_are_balanced_with_accumulation_only() -> None:
    assert left_out(ranks=1) == {
        "batch_rebalance": "a step is one batch of one rank, so that there is nothing to balance"
    }
    assert left_out(ranks=1, accumulation=4) == {}


def test_rows_that_would_weigh_more() -> None:
    weight = {"model": "BertForSequenceClassification", "ranks": 1, "accumulation": 1, "uneven": False}
    why = "the loss of BertForSequenceClassification is the mean of a batch: rows in small batches would weigh more"
    assert left_out(loss_weight=weight) == {"batch_rebalance": why}
    assert left_out(["batch_rebalance", "random", "group_by_length"], loss_weight=weight) == {}


@pytest.mark.parametrize("epoch", [0.4, 1.5])
def test_the_part_of_an_epoch_has_not_its_share_of_long_rows(epoch: float) -> None:
    why = f"of {epoch:.2f} epochs, the last is cut short: the longest rows of up to 50 batches come first"
    assert left_out(epoch=epoch) == {"group_by_length": why}
    assert left_out(["group_by_length", "random"], epoch=epoch) == {"random": why}
    # 400 of 16 x step rows are sorted together: more, or less, than 2 % of them.
    assert left_out(epoch=epoch, step=1200) == {"group_by_length": why}
    assert left_out(epoch=epoch, step=1300) == {}


def test_nothing_to_gain() -> None:
    full: dict[str, Any] = {"tokens": 8000}
    why = "there is nothing to gain: 0.0% of rank 0's positions were padding, 0.0% was waiting"
    assert left_out(**full) == dict.fromkeys(ALL[1:], why)
    assert left_out(ranks=1, **full) == dict.fromkeys(ALL[1:], why)
    # `optimize: padding` has left it out.
    assert left_out(ranks=1, not_computed=4000) == dict.fromkeys(ALL[1:], why)
    # A rank waits for the other, or batches are too few, or drawn in another way.
    assert left_out(**full, squares=1700000) == left_out(**full, batches=19) == left_out(**full, sums=None) == {}
    assert left_out(["group_by_length", "random"], **full) == {}


def test_rows_without_a_length() -> None:
    why = "the training data has no length, and the Trainer draws its rows one after the other"
    assert left_out(samples=None) == dict.fromkeys(ALL[1:], why)


@pytest.mark.parametrize(
    ("script", "args", "refused"),
    [
        ("run_glue.py", {}, True),
        ("run_glue.py", {"pad_to_max_length": False}, False),
        ("run_qa.py", {"no_pad_to_max_length": True}, False),
        ("own.py", {"pad-to-max-length": True}, True),
        ("own.py", {}, False),
        ("train_decoder.py", {"packing": True}, True),
        ("train_decoder.py", {"packing": False}, False),
    ],
)
def test_jobs_whose_rows_all_have_one_length(script: str, args: dict[str, Any], refused: bool) -> None:
    job = runs.run(name="demo", script=Path("/jobs", script), args=args).job
    assert bool(sampling.refusal(job, "random")) == refused
    if refused:
        with pytest.raises(ValueError, match="the rows of job demo all have the same length, so that"):
            trainings.new(trainings.SAMPLING, trainings.OPTIONS, job, {}, "now")


def test_other_kinds_of_jobs() -> None:
    with pytest.raises(ValueError, match="is of kind torch: train_sampling_strategy is an argument of transformers"):
        trainings.new(trainings.SAMPLING, trainings.OPTIONS, runs.run(kind="torch").job, {}, "now")
