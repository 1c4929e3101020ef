from __future__ import annotations

import signal

import pytest
from ansible_collections.amx.cluster.plugins.callback.compact import CallbackModule
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
