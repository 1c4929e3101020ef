from __future__ import annotations

import sys
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from amx_cluster.observer import loss_weight


class OfMeans:
    """A model of transformers whose loss is the mean of a batch. Its source is read, it is never called."""

    def forward(self, logits: Any, labels: Any, **_words: Any) -> Any:
        return CrossEntropyLoss()(logits, labels)  # type: ignore[name-defined] # noqa: F821


OfMeans.__module__ = "transformers.models.bert.modeling_bert"


class Trainer:
    """What loss_weight looks at of transformers' Trainer, on two ranks with four batches a step."""

    compute_loss_func = label_smoother = loss_is_scaled_for_ga = None
    model_accepts_loss_kwargs = True

    def __init__(self, **changed: Any) -> None:
        self.model = OfMeans()
        self.accelerator = SimpleNamespace(num_processes=2)
        self.args = SimpleNamespace(gradient_accumulation_steps=4, average_tokens_across_devices=True)
        self.current_gradient_accumulation_steps = 4
        vars(self).update(changed)

    def compute_loss(self) -> None: ...


class OfDerived(Trainer): ...


class OfItsOwn(Trainer):
    def compute_loss(self) -> None: ...


@pytest.fixture(autouse=True)
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("transformers.trainer")
    vars(module)["Trainer"] = Trainer
    monkeypatch.setitem(sys.modules, "transformers.trainer", module)


def factors(trainer: Trainer, items: int | None = 32) -> tuple[int, int] | None:
    found = loss_weight.facts(trainer, items)
    return (found["ranks"], found["accumulation"]) if found else None


def test_by_what_a_mean_is_multiplied() -> None:
    assert factors(Trainer()) == factors(OfDerived()) == (2, 4)
    assert factors(Trainer(), items=None) == (1, 1)
    assert factors(Trainer(model_accepts_loss_kwargs=False)) == (1, 1)


def test_a_loss_that_the_script_computes_is_not_judged() -> None:
    changed = Trainer()
    vars(changed)["compute_loss"] = MethodType(OfItsOwn.compute_loss, changed)
    assert factors(changed) is None
    assert factors(OfItsOwn()) is None
    assert factors(Trainer(compute_loss_func=print)) is None


def test_a_script_that_says_its_loss_is_a_mean_has_it_divided_by_the_batches_of_a_step() -> None:
    assert factors(Trainer(loss_is_scaled_for_ga=False)) == (2, 1)
    assert factors(Trainer(loss_is_scaled_for_ga=True)) == (2, 4)


def test_a_dataset_with_fewer_batches_than_a_step_has() -> None:
    assert factors(Trainer(current_gradient_accumulation_steps=3)) == (2, 3)
