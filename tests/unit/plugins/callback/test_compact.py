from __future__ import annotations

import signal

import pytest
from ansible.playbook.handler import Handler
from ansible.playbook.play import Play
from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task import Task
from ansible.playbook.task_include import TaskInclude
from ansible_collections.amx.cluster.plugins.callback.compact import CallbackModule
from ansible_collections.amx.cluster.plugins.plugin_utils import screen
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.launch import STARTED_BY


@pytest.mark.parametrize(("command", "raised"), [("logs", SystemExit), ("train", KeyboardInterrupt)])
def test_ctrl_c_is_how_logs_end(monkeypatch: pytest.MonkeyPatch, command: str, raised: type[BaseException]) -> None:
    """Of other commands it is an interruption, which Ansible reports."""
    monkeypatch.setenv(STARTED_BY, command)
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        CallbackModule().v2_playbook_on_start(None)
        with pytest.raises(raised):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("made", [Task, Handler, IncludeRole, TaskInclude])
def test_every_kind_of_task_is_told_where_no_line_is_drawn_again(
    made: type[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(screen.Reminder, "begin", lambda _self, name: told.append(name))
    task = made()
    task.name, task.action = "Copy the data", "copy"
    callback = CallbackModule()
    callback._play = Play.load({"name": "Train", "hosts": "all"})
    callback._begin(task)
    assert told == ["Copy the data"]
