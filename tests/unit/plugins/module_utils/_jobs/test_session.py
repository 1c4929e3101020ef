from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import session

LOGIN = "0::/user.slice/user-1000.slice/session-7.scope\n"
COMMAND = ["python", "-S", "/runtime", "supervise"]
# STAND-INS for logind, which the scenario faults asks in earnest.
BUSCTL = """#!/bin/sh
case $5 in KillUserProcesses) echo b {kill} ;; KillOnlyUsers) echo as 0 ;; *) echo 'as 1 "root"' ;; esac
"""


@pytest.mark.parametrize(
    ("killing", "only", "but", "ends"),
    [
        ("b true\n", "as 0\n", 'as 1 "root"\n', True),
        ("b false\n", "as 0\n", 'as 1 "root"\n', False),
        ("b true\n", 'as 2 "ann" "bob"\n', "as 0\n", True),
        ("b true\n", 'as 1 "bob"\n', "as 0\n", False),
        ("b true\n", "as 0\n", 'as 1 "ann"\n', False),
        ("", "", "", False),
    ],
)
def test_whose_processes_are_ended(killing: str, only: str, but: str, ends: bool) -> None:
    assert session.applies(killing, only, but, "ann") is ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cgroup", "kill", "linger", "first"),
    [
        (LOGIN, "true", "yes", "systemd-run"),
        (LOGIN, "false", "no", "python"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", "true", "yes", "python"),
        (LOGIN, "true", "no", ""),
    ],
)
def test_where_a_supervisor_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, kill: str, linger: str, first: str
) -> None:
    for name, text in {"busctl": BUSCTL.format(kill=kill), "loginctl": f"#!/bin/sh\necho {linger}\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not first:
        with pytest.raises(ValueError, match="sudo loginctl enable-linger ann on this host"):
            session.outside(COMMAND, cgroup, "ann")
        return
    words = session.outside(COMMAND, cgroup, "ann")
    assert (words[0], words[-len(COMMAND) :]) == (first, COMMAND)


@pytest.mark.slow
def test_a_host_without_logind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert session.outside(COMMAND, LOGIN, "ann") == COMMAND
