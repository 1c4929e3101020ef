"""Which parts of the tests are run, and which are left out."""

from __future__ import annotations

import pytest
import run

PARTS = [*run.on_this_machine(), *run.molecule()]


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        ([], {"ansible-test units", "documentation site", "kubernetes", "life"}),
        (["unit"], set()),
        (["units"], set()),
        (["molecule"], {"kubernetes", "life"}),
        (["molecule", "life", "default"], set()),
    ],
)
@pytest.mark.parametrize("at_length", [False, True])
def test_what_takes_long_is_left_out_unless_it_is_named(
    words: list[str], left_out: set[str], at_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AT_LENGTH", at_length)
    assert set(run.left_out(run.chosen(PARTS, words), words)) == (set() if at_length else left_out)
