# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the server of a host running: as a service of the user's systemd, else as a process without a terminal.

A service is started again when it ends, and with the host, where lingering is enabled for the user (loginctl(1)):
`cluster_serving: true` in the inventory has site.yml do that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, session
from ansible_collections.amx.cluster.plugins.module_utils._ownership import user_name

BEGIN = 60.0
"""Seconds within which a server that was started has written its status."""
REPLACE = 3600.0
"""Seconds within which all instances of a host are replaced."""
LINGER = Path("/var/lib/systemd/linger")

TEXT = """\
# Written by amx.cluster for the served model of job {job}; removed when that is stopped.
[Unit]
Description=amx.cluster: served model {job}
StartLimitIntervalSec=0

[Service]
ExecStart={command}
KillMode=mixed
TimeoutStopSec=150
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""


def name(path: Path) -> str:
    """Return the name of the service of a job directory."""
    return f"amx-cluster-{path.name}.service"


def file(path: Path) -> Path:
    """Return the file of the service of a job directory."""
    return Path.home() / ".config/systemd/user" / name(path)


def is_kept() -> bool:
    """Return whether this user has a systemd of their own that also runs without a login."""
    return (LINGER / user_name(os.getuid())).exists() and Path(f"/run/user/{os.getuid()}/systemd/private").exists()


def systemctl(*words: str) -> str:
    """Run systemctl of the user; return what is wrong, empty for nothing."""
    ran = subprocess.run(
        ["systemctl", "--user", *words],
        env=session.environment(os.environ, os.getuid()),
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if ran.returncode == 0 else ran.stderr.strip() or f"systemctl ended with {ran.returncode}"


def start(path: Path, command: Sequence[str]) -> dict[str, Any]:
    """Start the server of a job directory, or have the one that runs take the directory's new version.

    command: without its last word. Returns {replaced: whether one ran before}. Raises ValueError where it does not
    start; then nothing is left of it.
    """
    started = directory.settings_of(path).get("start", "")
    pid = running(path)
    if pid:
        os.kill(pid, signal.SIGHUP)
        problem = _wait(path, started, pid, REPLACE)
        if problem:
            raise ValueError(problem)
        return {"replaced": True}
    words = [*command, directory.SUPERVISE[0]]
    if is_kept():
        file(path).parent.mkdir(parents=True, exist_ok=True)
        file(path).write_text(TEXT.format(job=path.name, command=" ".join(map(_quoted, words))), encoding="utf-8")
        problem = systemctl("daemon-reload") or systemctl("enable", "--now", name(path))
        problem = problem or _wait(path, started, 0, BEGIN)
    else:
        session.stay([*command, "start"])
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        problem = _wait(path, started, 0, BEGIN)
    if problem:
        remove(path)
        raise ValueError(problem)
    return {"replaced": False}


def running(path: Path) -> int:
    """Return the process of the server of a job directory that runs, also where the directory was replaced; else 0."""
    aside = directory.replaced_by(path)
    for place in filter(None, (path, aside)):
        status = read_json(place / "status.json") or {}
        if status.get("state") == "running" and directory.is_alive(int(status["pid"]), path):
            return int(status["pid"])
    return 0


def _wait(path: Path, started: str, pid: int, seconds: float) -> str:
    """Wait until the server has a start of the job; return why it has not. pid: of the server that is to take it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = read_json(path / "status.json") or {}
        if status.get("start") == started:
            return str(status["reason"]) if status["state"] == "failed" else ""
        aside = directory.replaced_by(path) if pid else None
        refused = (read_json(aside / "status.json") or {}).get("refused", {}) if aside else {}
        if refused.get("start") == started:
            return str(refused["reason"])
        if pid and not directory.is_alive(pid, path):
            return f"the server (process {pid}) ended meanwhile"
        time.sleep(0.1)
    return f"it did not start within {seconds:g} s; {path}/log may tell why"


def remove(path: Path) -> None:
    """Remove the service of a job directory, if it has one."""
    if file(path).exists():
        systemctl("disable", name(path))
        file(path).unlink(missing_ok=True)
        systemctl("daemon-reload")


def _quoted(word: str) -> str:
    """Return a word as systemd.service(5) reads it."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'
