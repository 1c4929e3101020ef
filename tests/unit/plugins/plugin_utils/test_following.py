"""What is printed of a job that is followed, on a terminal and in a file."""

from __future__ import annotations

from types import SimpleNamespace
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


def test_restarts_notes_and_waits_are_printed_as_they_come(
    told: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is no progress yet, and where the log is printed instead of it."""
    clock = [100.0]
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0]))
    monkeypatch.setattr(screen, "current", lambda: Screen(columns=80, redraws=False))
    progress = following.Progress("mine")
    first: dict[str, Any] = {"started": "2026-11-27T12:00:00+00:00", "from": "the beginning"}
    status: dict[str, Any] = {"state": "running", "attempts": [first], "notes": ["a note"]}
    look: dict[str, Any] = {"status": status, "progress": {}, "ranks": {}}
    progress.show(look)
    progress.show(look)
    first.update(reason="node1 was killed", step=3)
    status["waiting"] = "waiting up to 120 s for node1 before the restart"
    for _look in range(40):
        clock[0] += 1
        progress.show(look)
    del status["waiting"]
    status["attempts"].append({"started": "2026-11-27T12:01:00+00:00", "from": "the beginning"})
    progress.show(look)
    shown = [text.strip() for text, _on_screen in told]
    assert [text for text in shown if not text.startswith("running")] == [
        "note: a note",
        *["waiting up to 120 s for node1 before the restart"] * 2,
        "restart 1 at 12:01:00: node1 was killed; continues from the beginning, 3 steps lost",
    ]
    assert shown.count("running, 0 s") == 1 and len([text for text in shown if text.startswith("running")]) >= 3
