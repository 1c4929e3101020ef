from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils import screen
from support.patience import until


def test_a_task_that_runs_for_long_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(screen.display, "display", shown.append)
    monkeypatch.setattr(screen.Reminder, "SECONDS", 0.01)
    reminder = screen.Reminder()
    reminder.begin("Install")
    until(lambda: len(shown) > 1)
    assert set(shown) == {"  Install: 0 s so far"}
    monkeypatch.setattr(screen.Reminder, "SECONDS", 1000.0)
    reminder.begin("Copy")
    reminder.end()
