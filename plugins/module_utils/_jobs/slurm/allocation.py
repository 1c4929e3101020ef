# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a job in an allocation of Slurm: plan it from the CPUs of each node, and supervise its ranks in the batch script.

One step on all nodes answers what the plan needs of each of them. Commands on other nodes are steps, too, and never
SSH, which would leave the CPUs and the memory that Slurm gave.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network, slurm
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    checkpoints,
    directory,
    host_answer,
    host_facts,
    readiness,
    remote,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue, submitting
from ansible_collections.amx.cluster.plugins.module_utils._jobs.supervisor import Supervisor
from ansible_collections.amx.cluster.plugins.module_utils._text import now

# In the job directory: the answers of the nodes, and the notice that the time is nearly up, which ranks look for.
ANSWERS, NOTICE = ".answers", "leaves.json"
# Errors of a shared file system that has no locks.
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# The share of the seconds before a time limit that were requested, with fewer of which half of them are waited for.
SHORT = 0.75
# Seconds that all nodes have to answer: the first import on a shared file system takes its time.
ANSWER = 180


def answer(words: Sequence[str]) -> dict[str, Any]:
    """Write what the plan needs of this node into the job directory. words: the job directory."""
    path = Path(words[0])
    planning = json.loads((path / submitting.PLANNING).read_text(encoding="utf-8"))
    node = os.environ["SLURMD_NODENAME"]
    base = Path(planning["prefix"])
    facts = host_facts.hardware(base, reached=node, network=planning["network"])
    own = host_answer.of_plan(base, planning["backends"], Path(planning["runtime"]).name, planning["request"])
    _io.write_json(path / ANSWERS / f"{node}.json", {"host": own, "facts": facts}, 0o600)
    return {"changed": False}


def gather(path: Path, planning: Mapping[str, Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what each node of the allocation has answered, by its name. Raises ValueError."""
    there = path / ANSWERS
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir(mode=0o700)
    sizes = [f"--nodes={len(names)}", f"--ntasks={len(names)}", "--ntasks-per-node=1"]
    command = [f"{planning['environment']}/bin/python", "-S", planning["runtime"], "answer", str(path)]
    try:
        ran = subprocess.run(
            [*remote.STEP, *sizes, *command], capture_output=True, text=True, check=False, timeout=ANSWER
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the nodes have not answered within {ANSWER} s") from None
    answers = {name: read_json(there / f"{name}.json") for name in names}
    missing = [name for name, seen in answers.items() if seen is None]
    if ran.returncode or missing:
        lines = [line for line in f"{ran.stdout}\n{ran.stderr}".splitlines() if line and line != '{"changed": false}']
        problems = [json.loads(line)["msg"] if line.startswith('{"failed"') else line for line in lines]
        why = "; ".join(dict.fromkeys(problems))[-600:] or f"nothing is in {there}, which all nodes must share"
        raise ValueError(f"{', '.join(missing or names)} cannot be planned: {why}")
    shutil.rmtree(there, ignore_errors=True)
    return {name: seen for name, seen in answers.items() if seen is not None}


def make(path: Path, run: Run, planning: Mapping[str, Any], answered: Mapping[str, Mapping[str, Any]]) -> Plan:
    """Return the plan of a job for the nodes that have answered; the first supervises it. Raises ValueError."""
    names = list(answered)
    first = answered[names[0]]["host"]
    here = Run(run.job, replace(run.settings, head=names[0]))
    cache = Path(planning["prefix"]) / "cache"
    networks = cluster_network.of_hosts({name: each["facts"] for name, each in answered.items()})
    seen = {name: {**each, "network": networks[name]} for name, each in answered.items()}
    _answers, plan = readiness.plan(here, names, seen, planning, first["stack"], planning["environment"], cache)
    return replace(plan, runtime=planning["runtime"], notices=f"file:{path / NOTICE}")


class SlurmSupervisor(Supervisor):
    """The runs of a job in one Slurm job, of which it may be a continuation."""

    return_seconds = 0  # a node that is lost does not come back into an allocation

    def __init__(
        self, path: Path, umask: int, here: str, earlier: Mapping[str, Any] | None = None, clock: Clock = CLOCK
    ) -> None:
        """earlier: the status that the Slurm job before this one has left, or this one before it was requeued."""
        before = earlier or {}
        prepared = bool(before.get("attempts")) and (path / "data").exists()
        super().__init__(path, umask, prepared, placed=True, here=here, clock=clock)
        # That which it continues in; and whether Slurm has sent the signal that comes before the time limit.
        self.following = ""
        self.time_is_up = False
        self.job = os.environ.get("SLURM_JOB_ID", queue.id_of(before))
        for name in ("attempts", "notes", "started"):
            self.status[name] = before.get(name, self.status[name])
        for attempt in self.status["attempts"]:
            attempt.setdefault("returncode", 1)
            attempt.setdefault("reason", "its Slurm job lost its first node, or was requeued")
        self.status["slurm"] = {"id": self.job, "earlier": (before.get("slurm") or {}).get("earlier", [])}

    def register(self, start: str) -> None:
        """Begin the run. Slurm has given this job its nodes: nobody is asked whether others have them."""
        del start
        self.lock = (self.folder / f"lock.{self.here}.supervisor").open("wb")
        with contextlib.suppress(OSError):  # on a file system without locks
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (self.folder / NOTICE).unlink(missing_ok=True)
        self.save()
        threading.Thread(target=self.touch, daemon=True).start()

    def touch(self) -> None:
        """Show that this process runs, for who looks from another host."""
        while True:
            with contextlib.suppress(OSError):
                (self.folder / queue.ALIVE).touch()
                os.utime(self.folder / queue.ALIVE)
            time.sleep(queue.TOUCHED)

    def approach_limit(self, usual: float) -> None:
        """Announce the time limit, of which Slurm has sent its signal. usual: how many seconds before it that was
        requested; where the limit is the partition's, Slurm may send it right at the begin."""
        began = self.clock.monotonic()
        known = seconds_left(self.job)
        if known is None:
            self.warn(max(0.0, usual - (self.clock.monotonic() - began)))
            return
        waits = known / 2 if known < usual * SHORT else 0.0
        self.clock.sleep(waits)
        self.warn(known - waits)

    def warn(self, seconds: float) -> None:
        """Announce to the ranks, which save a checkpoint then, that the time limit comes in so many seconds."""
        if not self.time_is_up:
            self.time_is_up = True
            end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
            with contextlib.suppress(OSError):  # without room for it there is none for a checkpoint
                _io.write_json(self.folder / NOTICE, {"action": "terminate", "time": f"{end:%Y-%m-%dT%H:%M:%SZ}"})

    def prepare_restart(self) -> str:
        """Restart in this allocation, or continue in another Slurm job; return why neither can be."""
        if self.time_is_up:
            return self.continue_later(f"its Slurm job {self.job} is about to reach its time limit")
        names = self.names()
        gone = remote.unreachable(names, self.here)
        if len(names) - len(gone) < (self.run.job.min_hosts or len(names)):
            return self.continue_later(f"{', '.join(gone)} of Slurm job {self.job} did not answer")
        return super().prepare_restart()

    def continue_later(self, reason: str) -> str:
        """Submit the job that goes on from the last checkpoint; return why this one ends."""
        saved = checkpoints.last_complete(self.folder / "output")
        at = f"{reason}; " + (f"{saved.name} is complete" if saved else "no checkpoint is complete")
        if len(self.status["attempts"]) > self.run.job.restarts:
            return f"{at}; restarts: {self.run.job.restarts} in the job file allows no further start"
        if self.time_is_up and not saved:
            return f"{at}: the next job would reach its limit, too. Request more time"
        try:
            after = f"{submitting.AFTER}{self.job}"
            self.following = submitting.sbatch(self.folder, self.run, after, umask=self.umask)
        except ValueError as error:
            return f"{at}; no further job was submitted: {error}"
        return f"{at}; Slurm job {self.following} continues it"

    def reap(self) -> None:
        """End orphaned processes on every node, unless Slurm does it."""
        if not self.stop_wanted or self.stopped[0] != "lost":
            super().reap()

    def remove_all_secrets(self) -> None:
        """Remove them at the job's end, which this is not where it is continued."""
        if not self.is_continued():
            super().remove_all_secrets()

    def is_continued(self) -> bool:
        """Return whether another Slurm job goes on, or this one, which Slurm has queued again."""
        if not self.stop_wanted:
            return bool(self.following)
        seen = queue.in_log(self.folder, self.job) if self.stopped[0] == "lost" else None
        # The last two where Slurm is set to: else it ends the job, which whoever asks next writes down.
        again = (queue.REQUEUED, "NODE_FAIL", "PREEMPTED") if self.run.job.restarts else (queue.REQUEUED,)
        return seen is not None and seen.state in again

    def finish(self, reason: str, code: int, seconds: float) -> None:
        """Write what came of the job, or which Slurm job continues it."""
        if self.following and self.stop_wanted:
            queue.run("scancel", self.following)
        if self.is_continued():
            if not self.stop_wanted:
                self.status["slurm"] = {"id": self.following, "earlier": [*self.status["slurm"]["earlier"], self.job]}
            self.status["waiting"] = f"Slurm job {queue.id_of(self.status)} continues it"
            self.save()
            (self.folder / queue.ALIVE).unlink(missing_ok=True)
            return
        with contextlib.suppress(OSError):  # its request is heeded: it may be submitted again
            (self.folder / queue.STOP_REQUEST).unlink()
        if self.stop_wanted and self.stopped[0] == "lost":
            seen = queue.in_log(self.folder, self.job)
            self.stopped = queue.outcome(self.job, seen) if seen else self.stopped
        super().finish(reason, code, seconds)


def conclude(path: Path, state: str, reason: str) -> None:
    """Write what came of a job whose supervisor was ended before it could."""
    status = read_json(path / "status.json") or {}
    if status.get("state") != "running" or queue.is_fresh(path):
        return
    plan = read_json(path / "plan.json") or {}
    supervisor = SlurmSupervisor(path, 0o077, plan["hosts"][0]["host"], status)
    supervisor.watch.beats = {int(rank): beat for rank, beat in (read_json(path / "ranks.json") or {}).items()}
    supervisor.stop(state, reason)
    begun = datetime.fromisoformat(status["started"])
    Supervisor.remove_all_secrets(supervisor)
    Supervisor.finish(supervisor, reason, 1, (datetime.now(timezone.utc) - begun).total_seconds())
    supervisor.after_the_end(path)


def begun(path: Path, run: Run) -> dict[str, Any] | None:
    """Make this Slurm job the one that runs the job in a directory; return the status of the job that it continues.

    None where it starts anew. Raises ValueError where another Slurm job runs it.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(directory.creating(path))
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
        status = read_json(path / "status.json") or {}
        own, job = os.environ["SLURM_JOB_ID"], queue.id_of(status)
        if status.get("state") == "running":
            if job == own:
                return status
            if is_under_way(path, job):
                raise ValueError(f"Slurm job {job} runs job {run.job.name}: wait for its end, or scancel {job}")
        _io.write_json(path / "status.json", submitting.first_status(run, own), 0o600)
    return None


def seconds_left(job: str) -> int | None:
    """Return the seconds until the time limit of a job that runs; None without one, or without an answer."""
    code, output, _errors = queue.run("squeue", "--noheader", f"--jobs={job}", "--format=%L")
    left = output.strip()
    return slurm.seconds(left) if not code and slurm.TIME.fullmatch(left) else None


def is_under_way(path: Path, job: str) -> bool:
    """Return whether a Slurm job has not ended; where Slurm does not answer, whether its supervisor shows that."""
    try:
        seen = queue.ask(job)
    except queue.AwayError:
        return queue.is_fresh(path)
    return seen is not None and not seen.ended


def is_to_stop(path: Path, continued: str, earlier: Mapping[str, Any] | None) -> bool:
    """Return whether the end of this Slurm job, or of one that it continues, was requested; forget that then."""
    request = path / queue.STOP_REQUEST
    with contextlib.suppress(OSError):
        requested = request.read_text(encoding="utf-8")
        request.unlink()
        return requested in (os.environ["SLURM_JOB_ID"], continued, *queue.earlier(earlier or {}))
    return False


def used_up(run: Run, status: Mapping[str, Any]) -> str:
    """Return why a job that Slurm has queued again does not go on; empty where it does. status: as it was left."""
    again = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    starts = max(again, len(status["attempts"]))
    if not again or starts <= run.job.restarts:
        return ""
    return (
        f"Slurm has queued its job {os.environ['SLURM_JOB_ID']} again, as after a lost node or a preemption: "
        f"restarts: {run.job.restarts} in the job file allows no further start"
    )


def refuse(path: Path, run: Run, reason: str, state: str = "failed") -> None:
    """Write that a job ended before it had a plan, and end."""
    status = read_json(path / "status.json") or {"started": now(), "attempts": [], "notes": [], "hosts": 0, "ranks": ""}
    slurm = {**(status.get("slurm") or {}), "id": os.environ["SLURM_JOB_ID"]}
    status.update(job=run.job.name, pid=os.getpid(), slurm=slurm)
    status.pop("waiting", None)
    with contextlib.suppress(OSError):
        directory.remove_secrets(path)
    _io.write_json(path / "status.json", {**status, "state": state, "reason": reason, "ended": now()}, 0o600)
    raise SystemExit(reason)


def give_up(path: Path, run: Run, earlier: Mapping[str, Any] | None, reason: str, state: str = "failed") -> None:
    """Write that a job ended before it was planned again, with the results that it has, and end. earlier: as begun."""
    if not (earlier and earlier["attempts"]):
        refuse(path, run, reason, state)
    (path / queue.ALIVE).unlink(missing_ok=True)  # of the supervisor before
    conclude(path, state, reason)
    raise SystemExit(reason)


def main(words: Sequence[str]) -> None:
    """Run the job in a directory, as the batch script does.

    words: that directory, and the start that was submitted, with :ID where it continues that Slurm job.

    With a state and a reason: write that the job has ended so, whose supervisor cannot.
    """
    path, umask = Path(words[0]).resolve(), os.umask(0o077)
    if words[2:]:
        conclude(path, words[1], words[2])
        return
    os.chdir(path)
    os.environ[remote.BY_STEPS] = "1"
    run = Run.from_json(json.loads((path / "job.json").read_text(encoding="utf-8")))
    start, _colon, continued = words[1].partition(":") if words[1:] else (run.settings.start, "", "")
    before = read_json(path / "status.json") or {}
    is_over = continued and before.get("state") != "running" and queue.id_of(before) != os.environ["SLURM_JOB_ID"]
    if (start and start != run.settings.start) or is_over:
        raise SystemExit(f"{path} is that of another start of job {run.job.name}: this one was given up")
    planning = json.loads((path / submitting.PLANNING).read_text(encoding="utf-8"))
    try:
        earlier = begun(path, run)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    over = used_up(run, earlier) if earlier else ""
    if over:
        give_up(path, run, earlier, over)
    signal.signal(directory.STOP, lambda *_signal: refuse(path, run, "it was stopped on request", "stopped"))
    early: list[int] = []
    signal.signal(signal.SIGUSR2, lambda number, _frame: early.append(number))
    if is_to_stop(path, continued, earlier):
        give_up(path, run, earlier, "it was stopped on request", "stopped")
    code, listed, errors = queue.run("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"])
    here = os.environ["SLURMD_NODENAME"]
    names = [here, *(name for name in listed.split() if name != here)]
    try:
        if code:
            raise ValueError(f"scontrol show hostnames: {errors}")
        answered = gather(path, planning, names)
        plan = make(path, run, planning, answered)
        for name, text in run_files(plan, run, answered[here]["host"]["stack"]).items():
            _io.write_text(path / name, text, 0o700 if name.endswith(".sh") else 0o600)
    except (OSError, ValueError) as error:
        refuse(path, run, str(error))
    supervisor = SlurmSupervisor(path, umask, here, earlier)
    signal.signal(directory.STOP, lambda *_signal: supervisor.stop("stopped", "it was stopped on request"))

    def approach_limit(*_signal: object) -> None:
        threading.Thread(target=supervisor.approach_limit, args=(planning["signal"],), daemon=True).start()

    signal.signal(signal.SIGUSR2, approach_limit)
    if early:
        approach_limit()
    signal.signal(signal.SIGTERM, lambda *_signal: supervisor.stop("lost", f"Slurm has ended its job {supervisor.job}"))
    supervisor.register("")
    supervisor.supervise()
    is_continued = supervisor.is_continued()
    if not is_continued:
        supervisor.after_the_end(path)
    sys.exit(0 if is_continued or supervisor.status["state"] == "succeeded" else 1)
