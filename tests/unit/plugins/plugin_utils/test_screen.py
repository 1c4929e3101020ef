from __future__ import annotations

import re
import time

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
    monkeypatch.setattr(screen.Reminder, "SECONDS", 1000.0)
    reminder.begin("Copy", began=time.monotonic() - 65)
    assert all(line.startswith("  Install: ") for line in shown)
    timer = reminder._timer
    assert timer
    reminder.end()
    timer.join()
    assert not any("Copy" in line for line in shown)
    reminder._remind("Copy", time.monotonic() - 65)
    reminder.end()
    assert re.fullmatch("  Copy: 1 min .*s so far", shown[-1])
