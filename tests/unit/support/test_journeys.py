"""Which journeys a scenario's script makes, and what it says of those that it leaves out."""

from __future__ import annotations

import pytest
from support import journeys


def quick() -> list[str]:
    return ["was quick"]


def slow() -> list[str]:
    return ["was slow"]


def measured() -> list[str]:
    return ["was measured"]


def wrong() -> list[str]:
    journeys.check(False, "it is red")
    return []


@pytest.mark.parametrize(
    ("asked", "at_length", "made"),
    [
        ("", False, ["quick"]),
        ("", True, ["quick", "slow"]),
        ("slow measured", False, ["slow", "measured"]),
    ],
)
def test_what_is_made(
    asked: str, at_length: bool, made: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOURNEYS", asked)
    monkeypatch.setattr(journeys, "AT_LENGTH", at_length)
    assert journeys.make([[quick], [slow]], [measured], at_length={slow: "minutes"}) == 0
    output = capsys.readouterr().out
    assert [name for name in ("quick", "slow", "measured") if f"was {name}" in output] == made
    left_out = "skipped: slow: only at length (make test-all): minutes" in output.splitlines()
    assert left_out == ("slow" not in made)


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
