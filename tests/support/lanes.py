"""Run the parts of the tests in lanes, side by side: as many at a time as there are lanes.

A part's output goes to a file of its own, and is printed in one piece when the part has ended; as it comes, where no
other part can run at the same time. A part states what it has to wait for. Of those that can start, the one goes first
that has the most work behind it, so that the lanes end together.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

from support.checkout import ROOT

LOGS = ROOT / ".cache" / "test_logs"
# How often a line says what is running: who watches from afar takes silence for a hang.
HEARTBEAT_SECONDS = 60.0
# How long a command that has to be ended has time to tidy up.
POLITE_SECONDS = 15.0


@dataclass(frozen=True)
class Part:
    """A row of the table.

    group: what the command line calls it by, with others.
    seconds: about how long it takes alone on two cores; decides what starts first, and when it must hang.
    after: parts, by name, that must have ended before, whatever became of them.
    needs: parts that must have passed before; else this one has failed without being run.
    reports: the directory for the JUnit reports that its command writes, whose tests are counted; without it the part
        passes or fails as a whole.
    undo: a command that removes what it leaves when it has to be ended.
    """

    group: str
    name: str
    command: Sequence[str]
    seconds: float
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    reports: Path | None = None
    undo: Sequence[str] = ()

    @property
    def timeout(self) -> float:
        """Seconds after which it is ended; generous, because other lanes make it slower, and so does a slow machine."""
        return max(1200.0, 5 * self.seconds)

    @property
    def log(self) -> Path:
        """The file that has its output."""
        return LOGS / (re.sub(r"\W+", "_", f"{self.group} {self.name}") + ".log")


@dataclass(frozen=True)
class Result:
    """What became of a part. `skipped` names tests with the reason: they neither passed nor failed, but are shown."""

    part: Part
    seconds: float
    passed: int
    failed: int
    skipped: tuple[str, ...] = ()


@dataclass
class Running:
    """A part that has been started, in a lane."""

    part: Part
    lane: int
    process: subprocess.Popen[bytes]
    output: BinaryIO
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class Lanes:
    """Parts on their way through `lanes` lanes; `env` is their environment. `results` are in the order of the parts."""

    def __init__(self, parts: Sequence[Part], lanes: int, env: Mapping[str, str]) -> None:
        self.parts = tuple(parts)
        self.waiting = list(parts)
        self.lanes = lanes
        self.env = env
        self.running: list[Running] = []
        self.ended: dict[str, Result] = {}
        self._printed: dict[str, int] = {}

    @property
    def results(self) -> list[Result]:
        return [self.ended[part.name] for part in self.parts if part.name in self.ended]

    def run(self) -> None:
        """Run all of them. On KeyboardInterrupt, those that run are ended and their output is printed before."""
        LOGS.mkdir(parents=True, exist_ok=True)
        heartbeat = time.monotonic()
        try:
            while self.waiting or self.running:
                while len(self.running) < self.lanes and (part := self._next()):
                    self.waiting.remove(part)
                    self._start(part)
                for one in tuple(self.running):
                    self._look_at(one)
                if not self._alone() and time.monotonic() - heartbeat > HEARTBEAT_SECONDS:
                    heartbeat = time.monotonic()
                    self._tell()
                time.sleep(0.1)
        except KeyboardInterrupt:
            for one in tuple(self.running):
                self._end(one, "interrupted")
            raise

    def _next(self) -> Part | None:
        """Return the part to start next; None when each has to wait."""
        unfinished = {part.name for part in self.waiting} | {one.part.name for one in self.running}
        ready = [part for part in self.waiting if not unfinished.intersection(part.after + part.needs)]
        return max(ready, key=lambda part: way(part, self.waiting), default=None)

    def _start(self, part: Part) -> None:
        part.log.unlink(missing_ok=True)
        output = part.log.open("ab", buffering=0)
        missing = [name for name in part.needs if name in self.ended and self.ended[name].failed]
        if missing:
            self._close(Result(part, 0.0, 0, 1), output, f"not run, because this failed: {', '.join(missing)}")
            return
        if part.reports:
            part.reports.mkdir(parents=True, exist_ok=True)
            for old in part.reports.glob("*.xml"):
                old.unlink()
        output.write(f"$ {' '.join(part.command)}\n".encode())
        lane = min(set(range(self.lanes)) - {one.lane for one in self.running})
        try:
            process = subprocess.Popen(
                part.command,
                cwd=ROOT,
                # Scenarios put their hosts on other cores in another lane, and let scripts add to the log themselves.
                env={**self.env, "AMX_TEST_LANE": str(lane), "AMX_TEST_LOG": str(part.log)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._close(Result(part, 0.0, 0, 1), output, f"cannot be started: {error}")
            return
        self.running.append(Running(part, lane, process, output))

    def _alone(self) -> bool:
        """Return whether no other part will run beside the present one."""
        return self.lanes == 1 or (len(self.running) == 1 and not self.waiting)

    def _look_at(self, one: Running) -> None:
        if self._alone():
            self._print(one.part)
        if one.process.poll() is not None:
            self._end(one)
        elif one.seconds > one.part.timeout:
            self._end(one, f"ended, because it took more than {one.part.timeout:.0f} seconds")

    def _end(self, one: Running, reason: str = "") -> None:
        """Count what became of a part; with a `reason`, end it before."""
        seconds = one.seconds
        if reason:
            end(one.process)
            if one.part.undo:
                call(one.part.undo, one.output, self.env)
        passed, failed, skipped = count(one.part, failed=bool(reason) or one.process.returncode != 0)
        if passed == failed == 0:
            reason, failed = "no test ran", 1
        self.running.remove(one)
        self._close(Result(one.part, seconds, passed, failed, skipped), one.output, reason)

    def _close(self, result: Result, output: BinaryIO, said: str) -> None:
        if said:
            output.write(f"\n{said}\n".encode())
        output.close()
        self.ended[result.part.name] = result
        self._print(result.part)

    def _print(self, part: Part) -> None:
        """Print what a part has said since it was last printed."""
        said = part.log.read_bytes()
        if part.name not in self._printed:
            heading(f"{part.group}: {part.name}")
        sys.stdout.buffer.write(said[self._printed.get(part.name, 0) :])
        sys.stdout.flush()
        self._printed[part.name] = len(said)

    def _tell(self) -> None:
        """Print what is running."""
        now = ", ".join(
            f"{one.part.name} for {one.seconds / 60:.0f} min (output so far: {one.part.log.relative_to(ROOT)})"
            for one in self.running
        )
        print(f"... {len(self.ended)} ended, {len(self.waiting)} waiting, running: {now}", flush=True)


def way(part: Part, parts: Sequence[Part]) -> float:
    """Return the seconds from the start of a part to the end of the last one of `parts` that waits for it."""
    behind = [way(other, parts) for other in parts if part.name in other.after + other.needs]
    return part.seconds + max(behind, default=0.0)


def count(part: Part, failed: bool) -> tuple[int, int, tuple[str, ...]]:
    """Return how many of a part's tests passed and failed, and the skipped ones; `failed`: its command did."""
    if not part.reports:
        # A scenario's script says what it leaves out (`support.journeys`).
        left_out = re.findall(r"^skipped: (.+)$", part.log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        return int(not failed), int(failed), tuple(left_out)
    passed = wrong = 0
    skipped = []
    for report in sorted(part.reports.glob("*.xml")):
        try:
            cases = ElementTree.parse(report).iter("testcase")
        except ElementTree.ParseError:  # it was being written
            wrong += 1
            continue
        for case in cases:
            reason = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                wrong += 1
            elif reason is not None:
                skipped.append(f"{case.get('name')}: {reason.get('message') or reason.text}")
            else:
                passed += 1
    # A command that fails where no test did broke off before one could.
    return passed, wrong or int(failed), tuple(skipped)


def call(command: Sequence[str], output: BinaryIO, env: Mapping[str, str], timeout: float = 120.0) -> None:
    """Run a command whose result does not matter, its output going to a file."""
    output.write(f"$ {' '.join(command)}\n".encode())
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=timeout
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started: politely first, so that it can tidy up."""
    started = offspring(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(POLITE_SECONDS)
    # Also what left its group, as all does that Ansible starts on this machine.
    for pid, _began in (started | offspring(process.pid)) & set(parents()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()


def parents() -> dict[tuple[int, str], int]:
    """Return the processes that there are, each by its number and when it began, with the number of its parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            values = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(path.parent.name), values[19]] = int(values[1])
    return found


def offspring(pid: int) -> set[tuple[int, str]]:
    """Return what a process has started, directly or not, as `parents` names them."""
    known = parents()
    found: set[tuple[int, str]] = set()
    above = {pid}
    while more := {process for process, parent in known.items() if parent in above} - found:
        found |= more
        above = {number for number, _began in more}
    return found


def heading(text: str) -> None:
    """Print a line that divides the output."""
    print(f"\n=== {text} {'=' * max(3, 100 - len(text))}", flush=True)
