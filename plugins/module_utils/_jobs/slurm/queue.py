# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a job in Slurm: by squeue, which also knows those that ended a few minutes ago, then by sacct."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json, write_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import secret_env
from ansible_collections.amx.cluster.plugins.module_utils._text import now

FORMAT = "%i|%T|%r|%S|%N"
# What the supervisor touches while it runs: seconds between two times, and after which Slurm is asked.
ALIVE, TOUCHED, SILENT = "alive", 5.0, 30.0
# Seconds for which an answer of Slurm's holds in one process, and that Slurm has to answer.
KEPT, PATIENCE = 10.0, 20
# What a login sets for these commands, which then show or end other jobs than those that are asked for.
OF_A_LOGIN = ("SQUEUE_", "SACCT_", "SCANCEL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN")
# In the job directory: the id of the Slurm job that is to stop. Its batch script ignores signals at its begin.
STOP_REQUEST = ".stop"
ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)
MUTE = (
    "and its supervisor shows no sign of life: Slurm notices a lost node after some minutes (SlurmdTimeout); or clocks "
    f"of hosts differ by more than {SILENT:.0f} s"
)
# The state that follows from what a node writes of the cause.
REQUEUED = "REQUEUED"
CAUSES = {"JOB REQUEUE": REQUEUED, "TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL"}
# Why a job is pending, for a person; Slurm's own word stands before it.
PENDING = {
    "Resources": "it waits for nodes that are in use",
    "Priority": "jobs with a higher priority come first",
    "Dependency": "it waits for the end of another job",
    "BeginTime": "it begins later, as after a requeue",
    "PartitionTimeLimit": "its time is over the partition's limit, and it will never start",
    "PartitionNodeLimit": "it requests more nodes than the partition gives a job, and it will never start",
    "PartitionConfig": "the partition does not allow what it requests, and it will never start",
    "JobHeldUser": "it is held: scontrol release lets it start",
    "JobHeldAdmin": "an administrator holds it",
}


class AwayError(Exception):
    """Slurm did not answer."""


@dataclass(frozen=True)
class Seen:
    """A job as squeue or sacct shows it; a state without further fields is sacct's."""

    state: str
    reason: str = ""
    start: str = ""
    nodes: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def parse(text: str) -> Seen | None:
    """Return the job of a line that squeue has printed in FORMAT; None where there is none."""
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) == len(FORMAT.split("|")):
            return Seen(*(("" if field in ("N/A", "None", "(null)") else field) for field in fields[1:]))
    return None


def parse_accounting(text: str) -> Seen | None:
    """Return the job that sacct has printed, as in CANCELLED by 1000|0:0."""
    word = re.match(r"\s*([A-Z_]+)", text)
    return Seen(word[1]) if word else None


_answers: dict[str, tuple[float, Seen | None]] = {}


def ask(job: str) -> Seen | None:
    """Return the job of an id; None where Slurm does not know it any more. Raises AwayError."""
    at, seen = _answers.get(job, (0.0, None))
    if at and time.monotonic() - at < KEPT:
        return seen
    code, output, errors = run("squeue", "--noheader", "--states=all", f"--jobs={job}", f"--format={FORMAT}")
    if code and "Invalid job id" not in errors:
        raise AwayError(" ".join(errors.split())[-200:] or f"squeue ended with {code}")
    seen = parse(output)
    if seen is None:
        code, output, _errors = run("sacct", "-X", "--noheader", "--parsable2", f"--jobs={job}", "--format=State")
        seen = None if code else parse_accounting(output)
    _answers[job] = (time.monotonic(), seen)
    return seen


def run(*words: str, **options: Any) -> tuple[int, str, str]:
    """Return (exit code, output, errors) of a command of Slurm's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_LOGIN)}
    options = {"env": own, **options}
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return ran.returncode, ran.stdout, ran.stderr


def id_of(status: Mapping[str, Any]) -> str:
    """Return the id of the Slurm job that runs, or is to run, a job; empty where none does. status: status.json."""
    return str(_of(status).get("id", ""))


def earlier(status: Mapping[str, Any]) -> list[str]:
    """Return the ids of the Slurm jobs that the one of a job continues. status: status.json."""
    return [str(job) for job in _of(status).get("earlier") or []]


def _of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a status has of Slurm; another user may have written it."""
    slurm = status.get("slurm")
    return slurm if isinstance(slurm, dict) else {}


def jobs_of(name: str, directory: Path) -> list[str] | None:
    """Return the ids of this user's Slurm jobs that were submitted for a job directory; None without an answer."""
    words = ("--noheader", "--states=all", f"--user={os.getuid()}", f"--name={name}", "--format=%i|%Z")
    code, output, _errors = run("squeue", *words)
    rows = (line.strip().partition("|") for line in output.splitlines())
    own = directory.resolve()
    return None if code else [job for job, _bar, place in rows if place and Path(place).resolve() == own]


def is_fresh(directory: Path) -> bool:
    """Return whether the supervisor of the job in a directory has shown lately that it runs, on whatever node."""
    with contextlib.suppress(OSError):
        return abs(time.time() - (directory / ALIVE).stat().st_mtime) < SILENT
    return False


def is_active(directory: Path, status: Mapping[str, Any]) -> bool:
    """Return whether a job whose status says so is pending or running; also where Slurm does not answer now."""
    if is_fresh(directory):
        return True
    try:
        seen = ask(id_of(status))
    except AwayError:
        return True
    return seen is not None and not seen.ended


def pending(job: str, seen: Seen) -> str:
    """Return what a job waits for, for a person."""
    why = PENDING.get(seen.reason, "")
    start = f", expected to start at {seen.start}" if seen.start else ""
    return f"Slurm job {job} is pending: {seen.reason or 'no reason yet'}" + (f" ({why})" if why else "") + start


def in_log(directory: Path, job: str) -> Seen | None:
    """Return how Slurm has ended a job, which its node writes into the output of the script; None where it did not.

    Only there it is known at once, and for ever: as *** JOB 37 ON s0 CANCELLED AT 2026-11-28T03:08:04 ***.
    """
    with contextlib.suppress(OSError):
        text = (directory / "supervise.log").read_text(encoding="utf-8", errors="replace")
        for cause in reversed(re.findall(rf"\*\*\* JOB {job} ON \S+ CANCELLED AT \S+(?: DUE TO ([A-Z ]+))?", text)):
            return Seen(next((state for word, state in CAUSES.items() if word in cause), "CANCELLED"))
    return None


def _cause(directory: Path, job: str, seen: Seen | None) -> Seen | None:
    """Return the state that names why a job has ended: Slurm's own, or that of its log, if it is of this start."""
    if seen is not None and seen.state not in ("FAILED", "COMPLETED"):
        return seen
    logged = in_log(directory, job)
    return seen if logged is None or logged.state == REQUEUED else logged


def outcome(job: str, seen: Seen | None) -> tuple[str, str]:
    """Return (state, reason) of a job that has ended in Slurm, and whose supervisor has not written that."""
    if seen is None:
        return "lost", f"Slurm does not know its job {job} any more, and its supervisor ended without a word"
    return {
        "CANCELLED": ("stopped", f"its Slurm job {job} was cancelled"),
        "TIMEOUT": ("lost", f"its Slurm job {job} reached its time limit"),
        "NODE_FAIL": ("lost", f"a node of its Slurm job {job} failed"),
        "PREEMPTED": ("lost", f"its Slurm job {job} was preempted"),
        "OUT_OF_MEMORY": ("lost", f"its Slurm job {job} used more memory than Slurm gave it"),
    }.get(seen.state, ("lost", f"its Slurm job {job} ended ({seen.state}), and its supervisor without a word"))


def look(directory: Path, status: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a job that is not known to have ended, with what Slurm knows of it.

    What has ended in Slurm alone is written down as far as this user may: Slurm forgets it after some minutes.
    """
    job = id_of(status)
    if is_fresh(directory):
        return status
    try:
        seen = ask(job)
    except AwayError as error:
        return {**status, "waiting": f"Slurm does not answer: {error}"}
    if seen is not None and not seen.ended:
        if seen.state == "PENDING":
            return {**status, "waiting": pending(job, seen)}
        runs = f"Slurm job {job} is {seen.state} on {seen.nodes or 'its nodes'}"
        is_mute = status.get("attempts") and seen.state == "RUNNING"
        return {**status, "waiting": f"{runs}, {MUTE}" if is_mute else runs}
    after = read_json(directory / "status.json") or status
    if after["state"] != "running" or id_of(after) != job:  # it has ended between the two looks
        return after
    state, reason = outcome(job, _cause(directory, job, seen))
    if state == "lost":
        with contextlib.suppress(OSError, IndexError):  # Slurm writes there, too, why it could not start the script
            lines = (directory / "supervise.log").read_text(encoding="utf-8", errors="replace").splitlines()[-1]
            reason += f"; the last line of its supervise.log: {lines[-300:]}"
    return conclude(directory, status, state, reason)


def conclude(directory: Path, status: dict[str, Any], state: str, reason: str) -> dict[str, Any]:
    """Write what came of a job whose supervisor cannot; return its status.

    Nothing is written into another user's directory, and no program run that another user has named there.
    """
    ended = {**status, "state": state, "reason": reason, "ended": now()}
    ended.pop("waiting", None)
    if directory.stat().st_uid != os.getuid():
        return ended
    plan = (read_json(directory / "plan.json") or {}) if status.get("attempts") else {}
    if plan:  # the runtime of the job also writes its results
        own = [f"{plan['environment']}/bin/python", "-S", plan["runtime"], "allocation"]
        if run(*own, str(directory), state, reason)[0] == 0:
            return read_json(directory / "status.json") or status
    with contextlib.suppress(OSError):
        (directory / secret_env.FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        write_json(directory / "status.json", ended, 0o600)
    return ended


def stop(directory: Path, status: dict[str, Any]) -> None:
    """Request the end of a job: of its supervisor where it runs, else of its Slurm job. Raises ValueError."""
    job = id_of(status)
    seen = None
    with contextlib.suppress(AwayError):
        seen = ask(job)
    is_own = directory.stat().st_uid == os.getuid()  # else it may hold what leads elsewhere
    # At its begin, the batch script ignores signals, and heeds a request in its directory.
    runs = is_fresh(directory) or (is_own and seen is not None and seen.state == "RUNNING")
    words = ["--batch", "--signal=USR1"] if runs else []
    if is_own:
        with contextlib.suppress(OSError):  # without room for it
            write_text(directory / STOP_REQUEST, job, 0o600)
    code, _output, errors = run("scancel", *words, job)
    if code:
        if is_own:
            (directory / STOP_REQUEST).unlink(missing_ok=True)
        raise ValueError(f"scancel {job}: {' '.join(errors.split())}")
    _answers.pop(job, None)
    if not runs:
        conclude(directory, status, "stopped", "it was stopped on request")
