"""Processes that outlive the program that starts them, known by pid files, and ended by exactly those."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def born(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 where there is none (a zombie is none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


class Processes:
    """Those of one directory: NAME.pid has the process and its birth, NAME.log what it says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, name: str, command: Sequence[str], **environ: str) -> None:
        """Start a process in a session of its own, unless it runs."""
        if self.runs(name):
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environ},
            )
        file = self.directory / f"{name}.pid"
        file.write_text(json.dumps([process.pid, born(process.pid)]))

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def pid(self, name: str) -> int:
        """Return the process of a name that runs; 0 for none."""
        try:
            pid, birth = json.loads((self.directory / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return 0
        return int(pid) if birth and born(pid) == birth else 0

    def runs(self, name: str) -> bool:
        return self.pid(name) != 0

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.directory.glob("*.pid"))

    def end(self, name: str, seconds: float = 10) -> None:
        """End a process, by force after so many seconds, and forget it."""
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
            pid = self.pid(name)
            if not pid:
                break
            os.kill(pid, number)
            until(lambda: not self.runs(name), patience)
        (self.directory / f"{name}.pid").unlink(missing_ok=True)

    def tail(self, name: str, lines: int = 5) -> str:
        """Return the end of a log."""
        try:
            return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


def until(true: Callable[[], object], seconds: float, every: float = 0.2) -> bool:
    """Wait until something is true, at most so many seconds; return whether it is."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback interface that nothing listens on."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
