"""Rows that jobs/scripts/train_embeddings.py trains a reranker on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
