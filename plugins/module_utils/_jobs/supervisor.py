# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a job on the head until it ends, and keep its state where anyone can read it.

A supervisor outlives the connection that started it. It writes status.json whenever the state changes, ranks.json every
two seconds with what each rank reported last, utilization.json every 30 seconds, and results.json at the end. States:
running, succeeded, failed, stopped (on request, directory.STOP), lost (by SIGTERM, as when the host shuts down). A job
that failed is started again from its last complete checkpoint as often as its file allows.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._data import pass_on, project
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    archive,
    batches,
    checkpoints,
    departures,
    directory,
    exchange,
    faults,
    heartbeats,
    host_queue,
    inference_requests,
    on_end,
    processes,
    remote,
    resuming,
    secret_env,
    session,
    transfers,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import (
    prepare_arguments,
    run_files,
    script_path,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.supervision import SEARCHED, Supervision
from ansible_collections.amx.cluster.plugins.module_utils._jobs.watch import Watch
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import (
    GRACE,
    PROGRESS,
    SUPERVISOR,
    WRITTEN_BY_RANK_0,
)
from ansible_collections.amx.cluster.plugins.module_utils._stacks.venv import MARKER
from ansible_collections.amx.cluster.plugins.module_utils._text import now

RETURN = 120  # seconds that hosts have to come back when too few are left for a restart
PASS_ON = 60  # seconds within which two hosts must connect and transfer something of the prepared data
FETCH = 60  # seconds that fetching the output of a job that is stopped may take
ASK_HOSTS = 10  # seconds, up to twice as many, between two looks at whether others than jobs in the queue use the hosts
LOOK_AT_QUEUE = 0.05  # seconds between two looks at the queue, for each job that waits: each reads all entries


class Supervisor(Supervision):
    """The runs of the job in a directory, from its first start to its last end."""

    return_seconds = RETURN

    def __init__(
        self,
        path: Path,
        umask: int,
        prepared: bool = False,
        placed: bool = False,
        here: str = "",
        clock: Clock = CLOCK,
    ) -> None:
        """Read the files of the run.

        umask: the one with which scripts run; this process has one of its own. prepared: whether its data are there.
        placed: whether all hosts have just been given the directory and the runtime. here: the name of this host in the
        plan; by default the one that the directory has.
        """
        run = Run.from_json(json.loads((path / "job.json").read_text(encoding="utf-8")))
        here = here or (path / "host").read_text(encoding="utf-8").strip()
        plan = json.loads((path / "plan.json").read_text(encoding="utf-8"))
        super().__init__(path, run, plan, here, Watch(path, run, plan, here, clock=clock))
        self.umask, self.placed = umask, placed
        self.prepares = self.run.job.prepare is not None and not prepared
        # What keeps others from the hosts and the name of the job: a `prepare` that outlives this process has it, too.
        self.lock: IO[bytes] | None = None
        # Its place in the queue for hosts; whether it has waited there, and the lock of this host since then.
        self.queued: host_queue.Place | None = None
        self.has_waited = False
        self.host_lock: IO[bytes] | None = None
        # All that have a job directory, also those that a restart goes on without.
        self.members = list(dict.fromkeys([self.here, *self.names()]))
        self.launcher = LAUNCHERS[self.run.job.launcher]
        # Arguments of the script that win over the job file's, such as the checkpoint that it resumes from.
        self.more: dict[str, Any] = {}
        # The files of the run that the last plan was written into: every host needs them.
        self.written: list[Path] = []
        # The files that other hosts have of checkpoints, by what their ranks told.
        self.told: resuming.Told = read_json(self.folder / directory.PARTS) or {}
        # The hosts with the file of secrets: the head as long as the job lasts, others until their ranks have begun.
        shared = self.run.settings.shared_directory
        on_end = self.run.job.on_end
        secret = self.plan.get("secrets") or (on_end and on_end.is_secret)
        self.with_secrets = set([self.here] if shared else self.members) if secret else set()
        # For what is done at the end, when the file is gone.
        self.secrets = (read_json(self.folder / secret_env.FILE) or {}) if on_end else {}
        # The other host whose output was brought here last.
        self.fetched_from = ""
        self.process: subprocess.Popen[bytes] | None = None
        # Checkpoints from which an attempt could not go on, once for each.
        self.failed_from: list[str] = []
        # The hosts that are taken back, and when; the attempts that ended for this.
        self.left: dict[str, str] = {}
        self.departed = 0

    def register(self, start: str) -> None:
        """Begin the run, as directory.begin does, or wait for its turn where the job file allows it.

        A job holds the hosts of its plan: this one only when it is among them, and it is the job's turn. Raises
        ValueError, and OSError where nobody could see the job.
        """
        job, settings = self.run.job, self.run.settings
        entry = host_queue.Entry(
            self.folder.name, self.names(), priority=job.priority, user=settings.user, since=settings.since
        )
        try:
            self.queued = host_queue.Place(self.folder.parent, entry, job.wait)
        except host_queue.NotFreeError as error:
            raise ValueError(
                f"job {job.name} was not started: {error}. Wait for its end (wait: true in the job file does), or name "
                "free hosts"
            ) from None
        self.has_waited = self.queued.entry.waits
        # One that waits locks this host when nobody uses its hosts any more.
        self.lock = directory.begin(self.folder, self.here in self.names() and not job.wait, self.here, start)
        if self.prepares and not self.has_waited:
            self.status["preparing"] = now()  # which is shown from the first moment
        self.is_waiting()
        _io.write_json(self.folder / "status.json", self.status)

    def is_waiting(self) -> bool:
        """Begin where it is the job's turn; return whether it is not, with what it waits for in the status."""
        standing = self.queued.look() if self.queued else {}
        if standing:
            self.status.update(waiting=standing.pop("text"), queue=standing)
        return bool(standing)

    def wait_for_hosts(self) -> None:
        """Wait until it is the job's turn and nobody uses its hosts, and lock this host from then on."""
        shown = self.status.get("waiting")
        while self.is_waiting() and not self.stop_wanted:
            if self.status["waiting"] != shown:
                shown = self.status["waiting"]
                self.save()
            self.pause(max(1.0, self.status["queue"]["of"] * LOOK_AT_QUEUE))
        self.status.pop("queue", None)
        while self.queued and self.run.job.wait and not self.stop_wanted:
            if self.here in self.names():
                self.host_lock = (self.folder / f"lock.{self.here}.supervisor").open("wb")
                fcntl.flock(self.host_lock, fcntl.LOCK_EX)
            used = self.used_by_others()
            if not used:
                break
            # Not locked meanwhile: else jobs of two heads on the same hosts would wait for each other.
            if self.host_lock:
                self.host_lock.close()
                self.host_lock = None
            self.has_waited = True
            self.status["waiting"] = "; ".join(used)
            self.save()
            self.pause(ASK_HOSTS * random.uniform(1, 2))
        if self.status.pop("waiting", None):
            self.begun = self.clock.monotonic()
            self.save()

    def pause(self, seconds: float) -> None:
        """Sleep for so long, and at most a second longer than until the job is to be stopped."""
        end = self.clock.monotonic() + seconds
        while not self.stop_wanted and (left := end - self.clock.monotonic()) > 0:
            self.clock.sleep(min(1.0, left))

    def used_by_others(self) -> list[str]:
        """Return who uses hosts of this job besides the jobs in the queue: ranks that outlive their supervisor, jobs of
        another head, MPI programs of others. A host that does not answer is not waited for."""
        answers = remote.on_every_host(self.command("--locks", "{host}"), self.names(), self.here)
        lines = [line for code, text in answers.values() if not code for line in json.loads(text.splitlines()[-1])]
        return list(dict.fromkeys(lines))

    def supervise(self) -> None:
        """Run launch.sh to its end, again where it may be restarted, and write what came of it."""
        try:
            self.reserve()
            reason, code = self.attempts()
        except Exception as error:  # whatever it is: nobody is to wait for a job that is not looked after
            with contextlib.suppress(OSError):
                traceback.print_exc()
            if self.process and self.process.poll() is None:
                self.end()
            self.reap()
            reason, code = f"its supervisor failed ({type(error).__name__}: {error}); supervise.log tells where", 1
        # First: once it has ended, another run may have its directory.
        self.remove_all_secrets()
        self.unlock()
        self.finish(reason, code, self.clock.monotonic() - self.begun)

    def unlock(self) -> None:
        """Release the locks of this process; whoever reads that the job has ended can start the next one at once."""
        if self.queued:
            self.queued.leave()
        for lock in filter(None, (self.lock, self.host_lock)):
            lock.close()

    def after_the_end(self, place: Path) -> None:
        """Do what the job's file requests for its end, when another run may have its hosts and its path already.

        place: the job's directory, wherever it is moved.
        """
        job = self.run.job
        if job.on_end is None:
            return
        results = read_json(place / "results.json") or {}
        ended = {
            **{key: self.status[key] for key in ("job", "state", "reason")},
            "host": self.here,
            "directory": str(self.folder),
            "results": results,
        }
        outcome = on_end.carry_out(job.on_end, place, {**os.environ, **job.env}, self.umask, self.secrets, ended)
        print(f"{outcome['time']} {outcome['text']}", flush=True)

    def conclude(self, code: int) -> None:
        """Write what came of a job whose supervisor has ended before its ranks. code: of launch.sh."""
        earlier = read_json(self.folder / "status.json") or {}
        if earlier.get("state") != "running" or directory.running(self.folder):
            return
        gone = f"its supervisor (process {earlier['pid']}) ended before its ranks"
        self.status = {**earlier, "pid": os.getpid()}
        self.save()
        self.watch.beats = {int(rank): beat for rank, beat in (read_json(self.folder / "ranks.json") or {}).items()}
        reason = ""
        if code:
            self.stop("lost", f"{gone}, which have ended since")
            self.reap()
        else:
            self.note(f"{gone}: what these reported since then is missing")
            reason = self.fetch_output() or self.wrong()
        self.status["attempts"][-1].update(ended=now(), returncode=code, reason=reason or self.stopped[1])
        self.remove_all_secrets()
        begun = datetime.fromisoformat(self.status["started"])
        self.finish(reason, code, (datetime.now(timezone.utc) - begun).total_seconds())
        self.after_the_end(self.folder)

    def wrong(self) -> str:
        """Return what is wrong with a job whose ranks have all ended well."""
        return self.watch.wrong_world() or self.missed()

    def attempts(self) -> tuple[str, int]:
        """Run launch.sh until it succeeds or is not started again; return why it failed at last, and its exit code."""
        reason, code = "", 0
        self.wait_for_hosts()
        is_checked = self.stop_wanted or (self.placed and not self.has_waited)
        reason = "" if is_checked else self.check_hosts(self.names())
        if not reason and self.prepares and not self.stop_wanted:
            self.status["preparing"] = now()
            self.save()
            reason, code = self.prepare()
        reason = reason or ("" if self.stop_wanted else self.exchange())
        if not reason and checkpoints.last_marked(self.folder / "output"):
            earlier = read_json(self.folder / directory.RESUMED) or {}  # the run that this one goes on with
            gone = {name: "no host of this job" for name in earlier.get("hosts") or [] if name not in self.names()}
            reason = self.resume(self.names(), gone, earlier)
        while not reason and not self.stop_wanted:
            reason, code = self.attempt()
            if not reason or self.stop_wanted or not self.may_restart(reason):
                break
            again = self.prepare_restart()
            if again:  # a full disk is the cause of both, and what a copy says of it tells little
                full = faults.full_disks(self.full_disks(), str(self.folder)).removeprefix("; ")
                again = f"{full} ({again})" if full and full not in again else again
            reason = again
            if self.stop_wanted:
                break
        return reason, code

    def check_hosts(self, names: Sequence[str]) -> str:
        """Check that hosts have the directory of this start of the job, and install the runtime where it is missing.

        Returns why that failed.
        """
        if self.run.settings.shared_directory:
            return ""
        check = shlex.join(archive.command(self.plan, "check"))
        command = f"cat {shlex.quote(str(self.folder))}/job.json && {{ {check} 2>&1; true; }}"
        answers = remote.on_every_host(["sh", "-c", command], names, self.here)
        there = {host: text for host, (code, text) in answers.items() if code == 0}
        other = [host for host, text in there.items() if self.run.settings.start not in text]
        if other:
            return f"another start of this job has replaced its directory on {', '.join(other)}: start it again"
        missing = [host for host, text in there.items() if not text.rstrip().endswith(archive.COMPLETE)]
        problems = transfers.install(self.plan, [host for host in missing if host != self.here], self.here)
        return "; ".join(problems.values())

    def prepare(self) -> tuple[str, int]:
        """Run the script that makes the job's data, and copy these to the other hosts.

        Returns why that failed (an empty string when it did not), and the exit code. What the script prints is in the
        log.
        """
        job, log = self.run.job, self.folder / "log"
        script = script_path(self.run, job.prepare.script if job.prepare else None)
        paths = [*self.run.settings.project.get("paths", []), "packages", self.plan["runtime"]]
        own = {"PYTHONPATH": ":".join(str(self.folder / path) for path in paths), processes.OF_JOB: str(self.folder)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [f"{self.plan['environment']}/bin/python", str(self.folder / script), *prepare_arguments(job)],
                cwd=self.folder / project.DIRECTORY if job.project else self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=self.umask,
                env={**os.environ, **own},
                pass_fds=[lock.fileno() for lock in (self.lock, self.host_lock) if lock],
            )
        while self.process.poll() is None:
            if self.stop_wanted:
                self.end()
            time.sleep(0.2)
        # Nothing that it has started goes on beside the ranks.
        self.end()
        code = self.process.returncode
        reason = ""
        if self.stop_wanted:
            pass
        elif code:
            text = _io.tail(log, 0, SEARCHED)
            full = remote.full_disks([str(self.folder)], [self.here], self.here)
            reason = f"prepare failed: {faults.of_script(text, code)}"
            reason += faults.disks(text, full, str(self.folder), self.here)
        else:
            reason = self.pass_on()
        del self.status["preparing"]
        self.save()
        self.begun = self.clock.monotonic()
        return reason, code

    def pass_on(self) -> str:
        """Copy the prepared data to the other hosts, which pass them on to each other; return why that failed."""
        others = [host for host in self.plan["hosts"] if host["host"] != self.here]
        if self.run.settings.shared_directory or not others:
            return ""
        if not (self.folder / "data").exists():
            return "prepare left no data/ in the job directory: its script writes there what ranks on other hosts read"
        python = f"{self.plan['environment']}/bin/python"
        hosts = {host["host"]: {"address": host["address"], "python": python, "names": ["data"]} for host in others}
        plan = pass_on.Spread(self.here, [], list(hosts))
        transfers_ = pass_on.Transfers(self.here, hosts, self.folder, self.folder, PASS_ON)
        copying = threading.Thread(target=pass_on.spread, args=(plan, transfers_), daemon=True)
        copying.start()
        while copying.is_alive() and not self.stop_wanted:
            copying.join(0.2)
        left = {**dict.fromkeys(plan.waiting, "it was not reached"), **plan.failed}
        if self.stop_wanted or not left:
            return ""
        problems = "; ".join(f"{host}: {why}" for host, why in sorted(left.items()))
        return f"the prepared data could not be copied to all hosts: {problems}"

    def exchange(self) -> str:
        """Test the fabric between every pair of hosts, where the job has one; return why the job cannot use it."""
        outcome = exchange.run(self.folder, self.plan, lambda: self.stop_wanted)
        self.note(outcome.note)
        return outcome.reason

    def remove_secrets(self, names: set[str]) -> None:
        """Remove the secrets of the job from these hosts: who starts it again hands them over again."""
        command = ["rm", "-f", str(self.folder / secret_env.FILE)]
        answers = remote.on_every_host(command, sorted(names & self.with_secrets), self.here)
        self.with_secrets -= {host for host, (code, _text) in answers.items() if code == 0}

    def remove_all_secrets(self) -> None:
        """Remove them everywhere at the job's end, and say on which hosts they are left."""
        self.remove_secrets(self.with_secrets)
        if self.with_secrets:
            left = ", ".join(sorted(self.with_secrets))
            self.status["secrets_left"] = sorted(self.with_secrets)
            self.note(
                f"{left} did not answer at the job's end and still has {self.folder / secret_env.FILE}: when it "
                f"answers again, remove it with ansible-playbook playbooks/stop.yml -e job={self.run.job.name}"
            )

    def attempt(self) -> tuple[str, int]:
        """Run launch.sh once; return why it failed (an empty string when it did not), and its exit code."""
        for left in (*WRITTEN_BY_RANK_0, "ranks.json"):
            (self.folder / left).unlink(missing_ok=True)
        log = self.folder / "log"
        offset = log.stat().st_size if log.exists() else 0
        resumed = checkpoints.last_complete(self.folder / "output")
        record: dict[str, Any] = {"started": now(), "from": resumed.name if resumed else "the beginning"}
        record["hosts"] = self.names()
        if self.run.job.script == inference_requests.PREDICTION:
            record["predicts"] = True
        began = self.clock.monotonic()
        self.status["attempts"].append(record)
        head = self.run.settings.head_address or self.plan["master_addr"]
        with heartbeats.Receiver(head, self.clock) as receiver:
            with log.open("ab") as output:
                self.process = subprocess.Popen(
                    archive.command(self.plan, "launch", str(self.folder), f"{self.umask:o}", directory.SUPERVISE[0]),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, SUPERVISOR: receiver.endpoint},
                )
            self.watch = Watch(self.folder, self.run, self.plan, self.here, receiver, self.clock)
            self.watch.printed = lambda: _io.tail(log, offset, SEARCHED)
            self.status.pop("waiting", None)
            self.status["launch_pid"] = self.process.pid
            self.save()
            reason = self.wait(receiver)
        code = self.process.returncode
        if self.stop_wanted or reason or code:
            self.reap()
        unfetched = self.fetch_output()
        if unfetched:
            self.note(unfetched)
        if reason:
            reason += faults.full_disks(self.full_disks(), str(self.folder))
        elif not self.stop_wanted:
            text = _io.tail(log, offset, SEARCHED) if code else ""
            if code:
                late = remote.unreachable(self.names(), self.here)
                # Asked again: a busy host may answer too late once, and no heartbeat tells of its ranks any more.
                self.watch.gone.update(remote.unreachable(late, self.here))
                reason = faults.cause(
                    text,
                    code,
                    self.watch.gone,
                    self.watch.out_of_memory(),
                    self.launcher.name,
                    self.launcher.killed(text, Plan.from_json(self.plan), receiver.ended),
                    self.watch.failures,
                )
            else:
                reason = unfetched or self.wrong()
            if reason:
                reason += faults.disks(text, self.full_disks(), str(self.folder), "one of its hosts")
        took = round(self.clock.monotonic() - began, 1)
        record.update(ended=now(), seconds=took, returncode=code, reason=reason, step=self.reached(record["from"]))
        self.departed += bool(self.watch.departures.at)
        self.left.update(self.watch.departures.at)
        for host, instance in self.watch.departures.instances.items():
            self.status.setdefault("left", {})[host] = {"at": self.left[host], "instance": instance}
        self.save()
        return reason, code

    def reached(self, origin: str) -> int:
        """Return the last step of the attempt, as far as its ranks have reported it. origin: its checkpoint."""
        since = checkpoints.step(Path(origin)) if origin.startswith("checkpoint-") else 0
        return max((read_json(self.folder / PROGRESS) or {}).get("step", 0), since + self.watch.steps())

    def full_disks(self) -> list[str]:
        """Return the hosts that have no room for what the job writes."""
        written = [str(self.folder), str(self.folder / "output")]
        return remote.full_disks(written, [name for name in self.names() if name not in self.watch.gone], self.here)

    def wait(self, receiver: heartbeats.Receiver) -> str:
        """Wait for the launcher; return why it had to be ended, or an empty string when it ended by itself."""
        process = self.started()
        cleared = False
        while process.poll() is None:
            self.take(receiver.receive(0.2))
            if not cleared and len(self.watch.beats) == self.plan["world_size"]:
                # Every rank has read them. Tried once: a host that does not answer now is asked again at the end.
                self.remove_secrets(self.with_secrets - {self.here})
                cleared = True
            self.report()
            reason = self.watch.reason()
            if self.stop_wanted or reason:
                self.end()
                return reason
        self.take(receiver.receive(0))  # what ranks sent as they ended
        if self.watch.beats:
            self.keep("ranks.json", self.watch.ranks())
        return self.watch.separate_models()

    def names(self) -> list[str]:
        """Return the hosts of the plan, in its order."""
        return [host["host"] for host in self.plan["hosts"]]

    def reap(self) -> None:
        """End the job's orphaned processes on every host that answers."""
        remote.on_every_host(self.command("--reap"), self.names(), self.here)

    def replan(self, names: list[str], earlier: dict[str, Any]) -> None:
        """Write the run's files for these hosts and the last complete checkpoint.

        earlier: ranks, accumulation and per_device of the run that left the checkpoint, as far as they are known.
        """
        stack = json.loads(Path(self.plan["environment"], MARKER).read_text(encoding="utf-8"))
        self.plan = Plan.from_json(self.plan).on_hosts(names).to_json()
        if self.queued:
            self.queued.keep(names)
        resumed = checkpoints.last_complete(self.folder / "output")
        job = self.run.job
        requested = batches.of_job(job, self.plan["world_size"])
        before = batches.of_run(earlier, requested)
        after = batches.kept(before, requested.ranks) if job.keep_global_batch and not job.global_batch else requested
        others = {name: value for name, value in self.more.items() if name not in after.arguments()}
        self.more = {**others, **(after.arguments() if after != requested else {})}
        changed = ""
        if self.run.job.of_kind().needs_group:  # other ranks have no batch together
            # What is new to a reader is the change from before, where nothing of it is in the job file.
            own = replace(before, ranks=after.ranks) if job.global_batch else requested
            changed = batches.change(before, after, own, checkpoints.step(resumed) if resumed else 0)
        if after.ranks != before.ranks:
            changed = f"{after.ranks} instead of {before.ranks} ranks on {', '.join(names)}; {changed}".rstrip("; ")
        if changed:
            self.status["notes"].append(changed)
        if resumed and self.run.job.of_kind().can_resume:
            self.more["resume_from_checkpoint"] = f"output/{resumed.name}"
        files = run_files(Plan.from_json(self.plan), self.run, stack, self.more)
        self.written = [self.folder / name for name in files]
        for name, text in files.items():
            _io.write_text(self.folder / name, text, 0o700 if name.endswith(".sh") else 0o600)
        self.status.update(
            hosts=len(names), ranks=after.ranks, accumulation=after.accumulation, per_device=after.per_device
        )

    def first_rank_is_elsewhere(self) -> bool:
        """Return whether rank 0, which writes the job's files, runs on another host than this supervisor."""
        return bool(self.here != self.plan["hosts"][0]["host"])

    def fetch_output(self) -> str:
        """Bring what rank 0 wrote on another host to the head, where results are looked for; return why it is not."""
        if not self.first_rank_is_elsewhere() or self.run.settings.shared_directory:
            return ""
        host = self.plan["hosts"][0]["host"]
        problem = transfers.fetch(
            host,
            self.folder / "output",
            lambda: self.stop_wanted and self.clock.monotonic() > self.stop_at + FETCH,
            self.fetched_from,
        )
        if not problem:
            self.fetched_from = host
        return problem

    def started(self) -> subprocess.Popen[bytes]:
        """Return the launcher's process. Raises RuntimeError before it was started."""
        if self.process is None:
            raise RuntimeError("the launcher was not started")
        return self.process

    def end(self) -> None:
        """End mpirun, which ends its ranks on every host."""
        process = self.started()
        for number in (signal.SIGTERM, signal.SIGKILL):
            # SIGKILL also when mpirun has ended in time: what it left behind is to end with it.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(GRACE)
        process.wait()

    def may_restart(self, reason: str) -> bool:
        """Return whether the job is to be started again after it failed with `reason`."""
        attempts = self.status["attempts"]
        if not attempts[-1]["returncode"]:
            return False
        before = attempts[-1]["from"]
        if not self.has_stepped() and not self.watch.gone and not self.watch.departures.at:
            self.failed_from.append(before)
        if self.watch.departures.at:
            return True
        if len(attempts) - self.departed > self.run.job.restarts:
            return False
        has_saved = checkpoints.last_complete(self.folder / "output") is not None
        if not self.has_stepped() and not has_saved and attempts[-1]["from"] == "the beginning" and not self.watch.gone:
            self.status["notes"].append("not restarted: it failed before its first step and would again")
            return False
        if self.failed_from.count(before) > 1 and len(checkpoints.complete(self.folder / "output")) < 2:
            self.note(f"not restarted: it failed twice before its first step from {before}, and would again")
            return False
        return True

    def prepare_restart(self) -> str:
        """Plan for the hosts that answer and copy the last complete checkpoint to them; return why that cannot be.

        Those that are taken back are left out, but asked for what they have of a checkpoint while they are there.
        """
        names = [name for name in self.names() if name not in self.left]
        leaving = [name for name in self.names() if name in self.left]
        least = self.run.job.min_hosts or len(self.names())
        deadline = self.clock.monotonic() + self.return_seconds
        while True:
            gone = remote.unreachable(names, self.here)
            left = [name for name in names if name not in gone]
            if leaving:
                at = {name: self.left[name] for name in leaving}
                reason = departures.cannot_go_on(at, left, least, self.here, self.run.job.replace)
                if reason:
                    return reason + self.save_elsewhere(left)
            if len(left) >= least or self.clock.monotonic() > deadline or self.stop_wanted:
                break
            self.status["waiting"] = f"waiting up to {self.return_seconds} s for {', '.join(gone)} before the restart"
            self.save()
            self.clock.sleep(2)
        if self.stop_wanted:
            return ""
        if len(left) < least:
            return (
                f"{', '.join(gone)} did not answer within {self.return_seconds} s and the job needs {least} host(s): "
                "bring it back and start the job again, or let it go on with fewer (min_hosts)"
            )
        try:
            away = dict.fromkeys(gone, "which does not answer")
            reason = self.check_hosts(left)
            if reason:
                return reason
            reason = self.resume(left, away, self.status, leaving)
            if reason and leaving:
                reason = self.resume(left, {**away, **dict.fromkeys(leaving, "which was taken back")}, self.status)
            return reason
        except OSError as error:
            return f"the files of a restart could not be written into {self.folder} on {self.here}: {error.strerror}"

    def save_elsewhere(self, left: list[str]) -> str:
        """Copy the newest complete checkpoint to the first of these hosts, if the head leaves; return where it is."""
        newest = checkpoints.last_complete(self.folder / "output")
        if self.here not in self.left or self.run.settings.shared_directory or not newest or not left:
            return ""
        problems = transfers.run({left[0]: self.to_host(left[0], newest)}, lambda: self.stop_wanted)
        return f". {problems[left[0]]}" if problems else f". {newest.name} is on {left[0]}, too"

    def to_host(self, host: str, checkpoint: Path) -> list[transfers.Step]:
        """Return what copies a checkpoint to a host."""
        made = remote.ssh(host, ["mkdir", "-p", f"{self.folder}/output"])
        return [
            transfers.Step(made, f"{host} has no room for the checkpoint"),
            transfers.push(host, [checkpoint], checkpoint.name),
        ]

    def resume(
        self, names: list[str], gone: dict[str, str], earlier: dict[str, Any], leaving: Sequence[str] = ()
    ) -> str:
        """Plan for these hosts and bring them all of the newest complete checkpoint; return why that cannot be.

        gone: {host: why its part of a checkpoint cannot be had}. earlier: as in replan. leaving: hosts with parts of a
        checkpoint that do not take part any more. Raises OSError.
        """
        reason = self.gather([*names, *leaving], gone, earlier.get("start", ""))
        if reason:
            return reason
        self.replan(names, earlier)
        return self.bring_checkpoint()

    def gather(self, names: list[str], gone: dict[str, str], start: str) -> str:
        """Copy to the head the newest checkpoint whose parts are on these hosts, and unmark any later one everywhere.

        start: of the run that the job goes on with; empty where it is restarted. Returns why that cannot be.
        """
        output = self.folder / "output"
        others = [] if self.run.settings.shared_directory else [name for name in names if name != self.here]
        parts, unknown = resuming.find(self.command("--parts", start), others, self.here, output)
        choice = checkpoints.choose(parts, self.here, {**gone, **unknown}, self.told, self.failed_from)
        if not choice.name and choice.refused and (choice.gone or start):
            return resuming.advice(choice)
        for note in resuming.notes(choice):
            self.note(note)
        reason = resuming.gather(output, choice, lambda: self.stop_wanted) if choice.name else ""
        if reason:
            return reason
        last = checkpoints.step(Path(choice.name))
        self.told = resuming.kept(self.told, choice)
        self.keep(directory.PARTS, self.told)
        answers = remote.on_every_host(self.command("--unmark", str(last)), [self.here, *others], self.here)
        left = [host for host, (code, _text) in answers.items() if code]
        return f"the marks of later checkpoints could not be removed on {', '.join(left)}" if left else ""

    def command(self, option: str, *words: str) -> list[str]:
        """Return the command with which a host does something in its job directory: see main."""
        return archive.command(self.plan, "supervise", option, str(self.folder), *words)

    def take(self, messages: list[dict[str, Any]]) -> None:
        """Record the heartbeats that came, and which hosts have parts of checkpoints."""
        if resuming.take(self.told, messages):
            self.keep(directory.PARTS, self.told)
        super().take(messages)

    def bring_checkpoint(self) -> str:
        """Copy the run's files and the last complete checkpoint to the other hosts; return why that failed."""
        if self.run.settings.shared_directory:
            return ""
        resumed = checkpoints.last_complete(self.folder / "output")
        secrets = [self.folder / secret_env.FILE] if self.plan.get("secrets") else []
        steps = {}
        for host in self.names():
            if host != self.here:
                steps[host] = [transfers.push(host, [*self.written, *secrets], "the run's files")]
                self.with_secrets |= {host} if secrets else set()
                steps[host] += self.to_host(host, resumed) if resumed else []
        return "; ".join(transfers.run(steps, lambda: self.stop_wanted).values())


def detach(path: Path, umask: int, start: str, prepared: bool = False, placed: bool = False) -> str:
    """Start the supervisor in a session of its own, with no tie to the terminal or connection that started this one.

    umask: the one with which scripts run. start: which start of the job this is; any, where it is empty. prepared,
    placed: as Supervisor has them.

    Returns when the supervisor has written status.json, so that whoever looks then finds it, or why it did not start.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8", errors="replace") as stream:
            problem = stream.read()
        if not problem and not (path / "status.json").exists():
            problem = f"the supervisor did not start; {path}/supervise.log tells why"
        return problem
    code = 1
    try:
        os.close(reader)
        os.setsid()
        with (path / "supervise.log").open("ab") as own_log, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(own_log.fileno(), 1)
            os.dup2(own_log.fileno(), 2)
        os.chdir(path)
        _supervise(Supervisor(path, umask, prepared, placed), start, writer)
        code = 0
    except BaseException:  # this process is not to go on with what its parent does
        traceback.print_exc()
    os._exit(code)


def _supervise(supervisor: Supervisor, start: str, writer: int) -> None:
    """Supervise the job to its end. writer: closed when it has begun; gets the reason where it cannot."""
    path = supervisor.folder
    # Before anyone can know the process to send it to.
    requested = ("stopped", "it was stopped on request")
    ended = ("lost", "its supervisor was asked to end, as when the head shuts down")
    signal.signal(directory.STOP, lambda *_signal: supervisor.stop(*requested))
    signal.signal(signal.SIGTERM, lambda *_signal: supervisor.stop(*ended))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        supervisor.register(start)
    except (OSError, ValueError) as error:
        supervisor.unlock()  # before the previous run is put back
        full = _io.disk_problem(str(error), supervisor.here, str(path))
        problem = full or _ownership.denied(error) or str(error)
        os.write(writer, problem.encode()[:1000])
        return
    os.close(writer)
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    supervisor.supervise()
    supervisor.after_the_end(Path(f"/proc/self/fd/{place}"))


def main(arguments: list[str]) -> None:
    """Start the supervisor of the job in a directory: [directory, start, directory.PREPARED].

    start: which start of the job it is, any without it. directory.PREPARED: its data were prepared for another job.

    --reap: end the job's orphaned processes on this host instead. --ranks, with what wire.attempt returns: print which
    ranks have ended here, and how. --usage: print, as JSON, how many processors each rank on this host keeps busy, with
    all that it has started. --locks, with this host's name: print, as JSON, a line for each that uses the host besides
    the job. --parts, with the run that it goes on with: print what this host has of checkpoints, as
    resuming.here returns it. --unmark, with a step: take the marks from later ones.
    """
    if not arguments[0].startswith("--"):
        try:
            session.stay([sys.executable, "-S", str(Path(sys.argv[0]).resolve()), "supervise", *arguments])
        except ValueError as error:
            raise SystemExit(str(error)) from None
    umask = os.umask(0o077)
    if arguments[0] == "--reap":
        processes.end(Path(arguments[1]), grace=5)
    elif arguments[0] == "--ranks":
        sys.stdout.write(json.dumps(processes.ended_ranks(Path(arguments[1]), arguments[2])) + "\n")
    elif arguments[0] == "--usage":
        sys.stdout.write(json.dumps(processes.usage_of_ranks(Path(arguments[1]), 1)) + "\n")
    elif arguments[0] == "--locks":
        path, host = Path(arguments[1]), arguments[2]
        sys.stdout.write(json.dumps(processes.locked(path.parent, host, path.name)["locks"]) + "\n")
    elif arguments[0] == "--parts":
        sys.stdout.write(json.dumps(resuming.here(Path(arguments[1]), "".join(arguments[2:]))) + "\n")
    elif arguments[0] == "--unmark":
        checkpoints.unmark(Path(arguments[1]) / "output", int(arguments[2]))
    else:
        problem = detach(
            Path(arguments[0]).resolve(), umask, "".join(arguments[1:2]), directory.PREPARED in arguments[2:]
        )
        if problem:
            raise SystemExit(problem)
