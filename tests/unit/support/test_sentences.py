"""A sentence of the product is compared in the test of the code that writes it, and in no other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from support.checkout import ROOT, tracked

WORDS = 8
# What several fields say alike, each from code of its own, and what Slurm says.
ALIKE = re.compile(
    r"a whole number of at least|the budget of \S+ min is too short|start at \S+ using 3 processors|"
    "Unable to contact slurm controller"
)
# Longer ones are programs and logs.
LINES = 4


def literals(text: str) -> Iterator[str]:
    """The sentences in a file, without its docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value if node.value.count("\n") < LINES else ""


def runs(text: str) -> Iterator[str]:
    """All words in a row of a text, without punctuation and numbers."""
    words = [word.strip(".,:;!?()[]{}'\"^$*") for word in ALIKE.sub("", text.replace("\\", "")).split()]
    words = [word for word in words if any(map(str.isalpha, word))]
    yield from (" ".join(words[first : first + WORDS]) for first in range(len(words) - WORDS + 1))


@pytest.mark.slow
def test_no_sentence_is_compared_by_two_files() -> None:
    where = defaultdict[str, set[str]](set)
    for name in tracked("tests/**/test_*.py", "molecule/**/*.py"):
        for literal in literals((ROOT / name).read_text(encoding="utf-8")):
            for run in runs(literal):
                where[run].add(name)
    twice = {run: sorted(names) for run, names in where.items() if len(names) > 1}
    assert twice == {}, (
        "compare a sentence in the unit test of the code that writes it; elsewhere only values in it, and the remedy's "
        "command"
    )
