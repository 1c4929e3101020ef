# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy files of a job directory between the head and other hosts: several at a time, and no longer than wanted."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, remote

# Hosts that are copied to at a time: they share the head's network card, and sshd starts so many at once anywhere.
AT_ONCE = 8
# Seconds that the installation of the runtime on a host may take.
INSTALL = 300
# Seconds that one command may take.
LONGEST = 3600.0
TRIES = 3
# Put the directory $1 in the place of $2. A checkpoint that the script has deleted does not come back.
REPLACE = 'rm -rf "$1.old" && { [ ! -e "$2" ] || mv -T "$2" "$1.old"; } && mv -T "$1" "$2" && rm -rf "$1.old"'
# Add the directory $1 to $2: linked, not copied, so that it takes no more room.
ADD = 'mkdir -p "$2" && cp -alf --remove-destination "$1/." "$2/" && rm -rf "$1"'


@dataclass(frozen=True)
class Step:
    """A command, and what to say, before what it prints, where it fails."""

    command: Sequence[str]
    failure: str


def run(
    steps: Mapping[str, Sequence[Step]], stop: Callable[[], bool] = lambda: False, pause: float = 0.1
) -> dict[str, str]:
    """Run the steps of each host one after another, those of AT_ONCE hosts at a time.

    Returns {host: why} of those that failed, or were not done before `stop` was true. pause: seconds between two looks.
    """
    problems: dict[str, str] = {}
    left = deque((host, deque(todo)) for host, todo in steps.items() if todo)
    running: dict[str, _Running] = {}
    while left or running:
        if stop():
            for host, process in running.items():
                process.end()
                problems[host] = f"{process.step.failure}: the job was stopped"
            problems.update((host, f"{todo[0].failure}: the job was stopped") for host, todo in left)
            break
        while left and len(running) < AT_ONCE:
            host, todo = left.popleft()
            running[host] = _Running(todo.popleft(), todo)
        for host, process in list(running.items()):
            problem = process.problem()
            if problem is None:
                continue
            del running[host]
            if problem:
                problems[host] = problem
            elif process.todo:
                left.appendleft((host, process.todo))
        time.sleep(pause if running else 0)
    return problems


class _Running:
    """A step that runs, with those that follow it."""

    def __init__(self, step: Step, todo: deque[Step]) -> None:
        self.step, self.todo = step, todo
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 closed when the command has ended
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.process = subprocess.Popen(
                list(step.command), stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT
            )
        except OSError as error:  # the head has no such program
            self.output.write(str(error).encode())

    def problem(self) -> str | None:
        """Return what went wrong, an empty string when nothing did, and None while it goes on."""
        code = self.process.poll() if self.process else 127
        if code is None:
            if time.monotonic() - self.began < LONGEST:
                return None
            self.end()
            return f"{self.step.failure} within an hour"
        self.output.seek(0)
        output = " ".join(self.output.read().decode("utf-8", errors="replace").split())[-400:]
        self.output.close()
        return f"{self.step.failure}: {output or f'exit code {code}'}" if code else ""

    def end(self) -> None:
        """End the command."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.output.close()


def push(host: str, paths: Sequence[Path], label: str) -> Step:
    """Return the step that copies files or directories, all of one directory, to the same place on another host."""
    command = ["scp", "-rqB", *map(str, paths), f"{host}:{paths[0].parent}/"]
    return Step(command, f"{label} could not be copied to {host}")


def install(plan: Mapping[str, Any], hosts: Sequence[str], here: str) -> dict[str, str]:
    """Install the runtime of a plan on hosts; return {host: why} of those where that failed. Raises OSError.

    Nothing of the archive is left there.
    """
    if not hosts:
        return {}
    runtime = plan["runtime"]
    packed = archive.pack(archive.of_directory(Path(runtime)))
    command = archive.installing(f"{plan['environment']}/bin/python", runtime)
    answers = remote.on_every_host(command, hosts, here, packed, INSTALL)
    return {
        host: f"the runtime could not be installed on {host}: {' '.join(output.split())[-400:] or f'exit code {code}'}"
        for host, (code, output) in answers.items()
        if code
    }


def fetch(host: str, directory: Path, stop: Callable[[], bool], before: str = "", wait: float = 2.0) -> str:
    """Copy `directory` of another host to the same place here; return why that failed, an empty string when it did not.

    What is here already is replaced when all of the other is there; where another host wrote it, it is kept and what
    this host has is added. before: the host of the last fetch. Where the host has no such directory, nothing is done.
    It is tried TRIES times, `wait` seconds apart.
    """
    part = directory.with_name(f".{directory.name}.part")
    copy = ["scp", "-rqB", f"{host}:{directory}", str(part)]
    move = REPLACE if before in ("", host) else ADD
    failure = f"{directory.name}/ could not be fetched from {host}"
    for attempt in range(TRIES):
        there = remote.on_every_host(["test", "-d", str(directory)], [host], "")[host]
        if there[0] == 1:
            return ""
        steps = [
            Step(["rm", "-rf", str(part)], failure),
            Step(copy, failure),
            Step(["sh", "-c", move, "sh", str(part), str(directory)], failure),
        ]
        why = f"{failure}: {there[1].strip()}" if there[0] else run({host: steps}, stop).get(host, "")
        if not why or stop():
            break
        if attempt + 1 < TRIES:
            time.sleep(wait)
    subprocess.run(["rm", "-rf", str(part)], check=False)
    return f"{why}. It is still in {directory} on {host}" if why else ""
