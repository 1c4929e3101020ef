"""A scenario's script tells what went wrong, and makes all of its journeys."""

from __future__ import annotations

import pytest
from support import journeys


def quick() -> list[str]:
    return ["was quick"]


def wrong() -> list[str]:
    journeys.check(False, "it is red")
    return []


def test_a_wrong_one_is_told_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JOURNEYS", raising=False)
    tidied = []
    assert journeys.make([[wrong], [quick]], after_a_wrong_one=lambda: tidied.append(True)) == 1
    output = capsys.readouterr().out
    assert "wrong: it is red" in output
    assert "was quick" in output
    assert tidied == [True]
