"""What is printed of a job that is followed, on a terminal and in a file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen
from ansible_collections.amx.cluster.plugins.plugin_utils import following, screen

METRICS = {"loss": 0.4287, "eval_loss": 0.4456, "eval_accuracy": 0.805}


def seen(state: str) -> dict[str, Any]:
    progress = {"step": 125, "max_steps": 125, "epoch": 1.0, "samples_per_step": 32, "began": 0.0, "time": 62.5}
    return {"status": {"state": state}, "progress": {**progress, "metrics": METRICS}, "ranks": {}}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return what is displayed, each time with whether the screen shows it."""
    found: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        following.display, "display", lambda text, log_only=False, **_: found.append((text, not log_only))
    )
    monkeypatch.setattr(screen, "send_progress", lambda _content: None)
    return found


@pytest.mark.parametrize("redraws", [True, False])
def test_the_end_is_shown_once(redraws: bool, told: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "current", lambda: Screen(columns=80, redraws=redraws))
    progress = following.Progress("mine")
    for state in ("running", "running", "succeeded", "succeeded"):
        progress.due = 0.0
        progress.show(seen(state))
    shown = [text for text, on_screen in told if on_screen]
    assert len(shown) == 1, "also where the log file had the last progress before the job ended"
    assert "evaluation accuracy 0.805" in " ".join(shown[0].split())
    assert (max(map(len, shown[0].split("\n"))) < 80) == redraws, "a file has no width"
    assert len(told) == (2 if redraws else 1)
