"""Rows that jobs/scripts/train_embeddings.py trains a reranker on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from support.checkout import ROOT
from support.scripts import load


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "jobs/scripts"))
    yield load(ROOT / "jobs/scripts/train_embeddings.py")
    sys.path.remove(str(ROOT / "jobs/scripts"))


def test_rows_of_a_reranker(script: Any) -> None:
    texts = {"query": ["a", "a", "b"], "document": ["1", "2", "3"], "negative": ["4", "5", "6"]}
    made = script.pairs(texts, 2, seed=1)
    rows = [f"{query}{document}{label:g}" for query, document, label in zip(*made.values())]
    # Documents 1 and 2 both belong to the query a.
    assert sorted(rows) == sorted(["a11", "a40", "a30", "a21", "a50", "a30", "b31", "b60", "b10", "b20"])
    assert script.pairs(texts, 2, seed=1) == made


def test_no_row_of_a_reranker_is_there_twice(script: Any) -> None:
    texts = {"query": ["a", "b", "c"], "document": ["1", "2", "3"], "negative": ["2", "3", "1"]}
    made = script.pairs(texts, 4, seed=1)
    rows = [*zip(*made.values())]
    assert len({row[:2] for row in rows}) == len(rows) == 9


class Model:
    """Scores of a model by query and document; what is not named has 0."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores

    def predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        return [self.scores.get("".join(pair), 0.0) for pair in pairs]


@pytest.mark.parametrize(
    ("scores", "candidates", "accuracy", "mrr"),
    [
        ({"a1": 1, "a2": 1, "b3": 1, "c4": 1}, 9, 1.0, 1.0),
        ({"a1": 1, "a2": 2, "a3": 3, "b3": 1, "c4": 1}, 9, 0.5, 0.75),
        ({"a1": 1, "a2": 2, "b3": 1, "b4": 1, "c4": 1, "c1": 2}, 2, 0.75, 0.875),
    ],
    ids=["perfect", "another document of the query is no wrong answer", "one other document each"],
)
def test_the_quality_of_a_model(
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
    scores: dict[str, float],
    candidates: int,
    accuracy: float,
    mrr: float,
) -> None:
    monkeypatch.setattr(script, "gather", lambda value: [value])
    texts = {"query": ["a", "a", "b", "c"], "document": ["1", "2", "3", "4"]}
    data = script.Arguments("", reranker=True, candidates=candidates)
    alone = SimpleNamespace(process_index=0, world_size=1)
    assert script.quality(Model(scores), texts, data, alone) == {"accuracy": accuracy, "mrr": mrr}


@pytest.mark.parametrize(
    ("settings", "batch", "problem"),
    [
        ({}, 2, ""),
        ({}, 3, "--per_device_train_batch_size is 3, and of 2 texts that differ"),
        ({}, 1, "--per_device_train_batch_size is 1: a batch needs"),
        ({"gather_across_devices": True}, 1, ""),
        ({"candidates": 1}, 2, "--candidates 1 are none"),
        ({"reranker": True, "negatives": 0}, 2, "--negatives 0: a reranker needs"),
        ({"reranker": True}, 3, ""),
    ],
)
def test_settings_with_which_nothing_is_learned(
    script: Any, settings: dict[str, Any], batch: int, problem: str
) -> None:
    texts = {"query": ["a", "b", "c"], "document": ["1", "2", "2"]}
    training = SimpleNamespace(train_batch_size=batch, batch_sampler=SimpleNamespace(value="no_duplicates"))
    with pytest.raises(script.InputError, match=f"^{problem}") if problem else nullcontext():
        script.check_settings(script.Arguments("", **settings), training, {"train": texts})
