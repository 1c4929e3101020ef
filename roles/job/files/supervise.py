"""Run a job on the head until it ends, and keep its state where anyone can read it.

    python -S supervise.py JOB_DIRECTORY            starts it, in a session of its own
    python -S supervise.py --reap JOB_DIRECTORY     ends what is left of it on this host

It outlives the connection that started it. It writes status.json whenever the state changes, ranks.json every two
seconds with what each rank told, and results.json at the end. States: running, succeeded, failed, stopped (on request,
directory.STOP), lost (by SIGTERM, as when the host shuts down).
A job that failed is started again from its last whole checkpoint as often as its file says.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

# The collection's own logic, which the job directory carries along.
sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    checkpoints,
    directory,
    faults,
    processes,
    run_files,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import on_hosts

GRACE = 10  # seconds that mpirun has to end its ranks after SIGTERM, and a host to answer
SILENT = 15  # seconds without a word from a host's ranks after which it is asked
RETURN = 120  # seconds that hosts have to come back when too few are left for a restart
LARGEST = 1 << 20  # bytes of a rank's message
# What rank 0 writes into the job directory (observe/sitecustomize.py).
TOLD = ("world.json", "progress.json", "ranks/entered.json")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Put a JSON file in place, whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def wrong_world(plan: dict[str, Any], world: dict[str, Any] | None) -> str:
    """Say how the group that formed differs from the one planned; an empty string when it does not.

    plan: plan.json. world: world.json, which rank 0 writes when the ranks have formed a group.
    """
    planned = {rank["rank"]: host["host"] for host in plan["hosts"] for rank in host["ranks"]}
    if len(planned) == 1:
        return ""
    if world is None:
        return (
            f"the {len(planned)} ranks formed no group: the script never called torch.distributed.init_process_group, "
            "so each rank would have trained a model of its own. With accelerate 1.13 or newer --use_cpu must be among "
            "its arguments"
        )
    formed = {rank["rank"]: rank["host"] for rank in world["ranks"]}
    if formed != planned:
        return f"the ranks formed another group than planned: {formed} instead of {planned}"
    return ""


def missed(expect: dict[str, float], metrics: dict[str, Any]) -> str:
    """Say which metric is below what the job expects of it; an empty string when none is."""
    for name, least in expect.items():
        if not isinstance(metrics.get(name), (int, float)):
            return f"the script reported no {name}, which the job expects to be at least {least:g}"
        if not metrics[name] >= least:
            return f"{name} is {metrics[name]:.4g} and the job expects at least {least:g}"
    return ""


def accumulation(args: dict[str, Any]) -> int:
    """Return over how many steps a script's arguments have it add up gradients; 1 where they do not say so."""
    steps = args.get("gradient_accumulation_steps", 1)
    return steps if isinstance(steps, int) else 1


class Supervisor:
    """The runs of the job in `folder`, from its first start to its last end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        self.here = (folder / "host").read_text(encoding="utf-8").strip()
        self.plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.status: dict[str, Any] = {
            "job": self.job["name"],
            "state": "running",
            "reason": "",
            "pid": os.getpid(),
            "started": now(),
            "hosts": len(self.plan["hosts"]),
            "ranks": self.plan["world_size"],
            "accumulation": accumulation(self.job["args"]),
            "attempts": [],
            "notes": [],
        }
        self.stop_wanted = False
        # The state, and why, of a job that is ended from outside.
        self.stopped = ("", "")
        self.mpirun: subprocess.Popen[bytes] | None = None
        self.beats: dict[int, dict[str, Any]] = {}
        self.gone: dict[str, str] = {}
        self.probed = 0.0

    def stop(self, state: str, reason: str) -> None:
        """Have the job ended: it will be in this state, for this reason."""
        if not self.stop_wanted:
            self.stop_wanted, self.stopped = True, (state, reason)

    def run(self) -> None:
        """Run launch.sh to its end, again where it may be restarted, and write what came of it."""
        begun = time.monotonic()
        try:
            reason, code = self.attempts()
        except Exception as error:  # whatever it is: nobody is to wait for a job that is not looked after
            traceback.print_exc()
            if self.mpirun and self.mpirun.poll() is None:
                self.end()
            self.reap()
            reason, code = f"its supervisor failed ({type(error).__name__}: {error}); supervise.log tells where", 1
        self.finish(reason, code, time.monotonic() - begun)

    def attempts(self) -> tuple[str, int]:
        """Run launch.sh until it succeeds or is not started again; return why it failed at last, and its exit code."""
        reason, code = "", 0
        if checkpoints.last_whole(self.folder / "output"):  # of the run that this one goes on with
            self.replan(
                [host["host"] for host in self.plan["hosts"]],
                directory.read_json(self.folder / directory.RESUMED) or {},
            )
            reason = self.bring_checkpoint()
        while not reason:
            reason, code = self.attempt()
            if not reason or self.stop_wanted or not self.may_restart(reason):
                break
            reason = self.prepare_restart()
            if self.stop_wanted:
                break
        return reason, code

    def finish(self, reason: str, code: int, seconds: float) -> None:
        """Write what came of the job."""
        if self.stop_wanted:
            self.status.update(state=self.stopped[0], reason=self.stopped[1])
        else:
            self.status.update(state="failed" if reason else "succeeded", reason=reason)
        self.status.update(returncode=code, ended=now(), seconds=round(seconds, 1))
        metrics = directory.read_json(self.folder / "output" / "all_results.json") or {}
        progress = directory.read_json(self.folder / "progress.json") or {}
        write_json(
            self.folder / "results.json",
            {
                **{
                    key: self.status[key]
                    for key in ("job", "state", "reason", "started", "ended", "seconds", "hosts", "ranks", "notes")
                },
                "restarts": max(0, len(self.status["attempts"]) - 1),
                "threads_per_rank": [host["threads_per_rank"] for host in self.plan["hosts"]],
                "precision": self.plan["precision"],
                "backend": self.plan["backend"],
                "stack": self.plan["stack"],
                "metrics": metrics,
                "steps": progress.get("step", 0),
                "resumed_step": progress.get("first_step", 0),
                "world": directory.read_json(self.folder / "world.json"),
                "output": str(self.folder / "output"),
            },
        )
        self.save()

    def attempt(self) -> tuple[str, int]:
        """Run launch.sh once; return why it failed (an empty string when it did not), and its exit code."""
        for left in (*TOLD, "ranks.json"):
            (self.folder / left).unlink(missing_ok=True)
        self.beats, self.gone = {}, {}
        log = self.folder / "log"
        offset = log.stat().st_size if log.exists() else 0
        resumed = checkpoints.last_whole(self.folder / "output")
        record: dict[str, Any] = {"started": now(), "from": resumed.name if resumed else "the beginning"}
        self.status["attempts"].append(record)
        listener = socket.create_server(("", 0), backlog=1024)
        listener.setblocking(False)
        token = secrets.token_hex(8)
        head = self.job.get("head_address", self.plan["master_addr"])
        with log.open("ab") as output:
            self.mpirun = subprocess.Popen(
                ["bash", "launch.sh"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "AMX_CLUSTER_BEAT": f"{head}:{listener.getsockname()[1]}:{token}"},
            )
        self.status["launch_pid"] = self.mpirun.pid
        self.save()
        with listener:
            reason = self.wait(listener, token)
        code = self.mpirun.returncode
        if self.stop_wanted or reason or code:
            self.reap()
        self.fetch_output()
        if not self.stop_wanted and not reason:
            if code:
                text = log.read_bytes()[offset:].decode("utf-8", errors="replace")
                self.gone.update(self.unreachable())
                reason = faults.cause(text, code, self.gone, self.out_of_memory())
            else:
                metrics = directory.read_json(self.folder / "output" / "all_results.json") or {}
                reason = wrong_world(self.plan, directory.read_json(self.folder / "world.json")) or missed(
                    self.job["expect"], metrics
                )
        record.update(ended=now(), returncode=code, reason=reason)
        self.save()
        return reason, code

    def wait(self, listener: socket.socket, token: str) -> str:
        """Wait for mpirun; return why it had to be ended, or an empty string when it ended by itself."""
        assert self.mpirun is not None
        written = 0.0
        while self.mpirun.poll() is None:
            self.listen(listener, token)
            if time.monotonic() - written > 2 and self.beats:
                written = time.monotonic()
                self.write_ranks()
            reason = self.overdue() or self.silent() or faults.stall(self.ages(), self.patience()) or self.apart()
            if self.stop_wanted or reason:
                self.end()
                return reason
            time.sleep(0.2)
        self.listen(listener, token)  # what ranks told as they ended
        self.write_ranks()
        return self.apart()

    def apart(self) -> str:
        """Say that ranks train models of their own. Only the Trainer's are known to share theirs whole."""
        shared = self.job.get("trainer", True) and not {"fsdp", "deepspeed"} & set(self.job.get("args", {}))
        return faults.apart(self.beats, self.plan["world_size"]) if shared else ""

    def write_ranks(self) -> None:
        """Write down what each rank told last."""
        if self.beats:
            write_json(self.folder / "ranks.json", {str(rank): beat for rank, beat in sorted(self.beats.items())})

    def ages(self) -> dict[int, dict[str, Any]]:
        """Return what each rank told last, with the seconds since then under "silent"."""
        return {rank: {**beat, "silent": time.monotonic() - beat["seen"]} for rank, beat in self.beats.items()}

    def listen(self, listener: socket.socket, token: str) -> None:
        """Take in what ranks told since the last look."""
        while True:
            try:
                connection, _address = listener.accept()
            except BlockingIOError:
                return
            try:
                with connection, connection.makefile("rb") as stream:
                    connection.settimeout(1)
                    beat = json.loads(stream.read(LARGEST))
                if beat.pop("token") != token:
                    continue
                rank, files, kills = int(beat["rank"]), dict(beat.pop("files")), int(beat["oom_kills"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # somebody else's, or cut off
            for name in TOLD:
                if name in files and self.first_host_is_elsewhere():
                    (self.folder / name).parent.mkdir(exist_ok=True)
                    write_json(self.folder / name, files[name])
            beat["first_oom_kills"] = self.beats.get(rank, beat).get("first_oom_kills", kills)
            self.beats[rank] = {**beat, "seen": time.monotonic()}

    def first_host_is_elsewhere(self) -> bool:
        """Tell whether rank 0, which writes the job's files, runs on another host than this supervisor."""
        return bool(self.here != self.plan["hosts"][0]["host"])

    def fetch_output(self) -> None:
        """Bring what rank 0 wrote on another host to the head, where results are looked for."""
        if self.first_host_is_elsewhere():
            source = f"{self.plan['hosts'][0]['host']}:{self.folder}/output"
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["scp", "-rqB", source, f"{self.folder}/"], check=False, timeout=3600)

    def patience(self) -> float:
        """Return the seconds without a step after which a job stands still."""
        return self.job.get("stall_seconds") or float("inf")

    def overdue(self) -> str:
        """Say that rank 0 waits for the others longer than the job allows, or an empty string."""
        entered = self.folder / "ranks" / "entered.json"
        if (self.folder / "world.json").exists() or not entered.exists():
            return ""
        waited = time.time() - entered.stat().st_mtime
        if waited < self.job["world_timeout"]:
            return ""
        return (
            f"rank 0 waited {waited:.0f} s for the other {self.plan['world_size'] - 1} rank(s) to join its group at "
            f"{self.plan['master_addr']}: check that hosts reach each other on the cluster network, on any port"
        )

    def silent(self) -> str:
        """Say which host has gone: its ranks have told nothing for a while, and it does not answer either."""
        latest: dict[str, float] = {}
        for beat in self.beats.values():
            latest[beat["host"]] = max(beat["seen"], latest.get(beat["host"], 0.0))
        quiet = [host for host, seen in latest.items() if time.monotonic() - seen > SILENT]
        if not quiet or time.monotonic() - self.probed < SILENT:
            return ""
        self.probed = time.monotonic()
        self.gone = {host: why for host, why in self.unreachable().items() if host in quiet}
        return faults.cause("", 0, self.gone, []) if self.gone else ""

    def on_every_host(self, command: list[str]) -> dict[str, tuple[int, str]]:
        """Run a command on every host of the plan at once: {host: (exit code, what it said)}; 255 is no answer."""
        started, answers = {}, {}
        for host in [entry["host"] for entry in self.plan["hosts"]]:
            options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ConnectionAttempts=1"]
            words = command if host == self.here else ["ssh", *options, host, shlex.join(command)]
            try:
                started[host] = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            except OSError as error:
                answers[host] = (255, str(error))
        for host, process in started.items():
            try:
                said, _nothing = process.communicate(timeout=GRACE)
                answers[host] = (process.returncode, said)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                answers[host] = (255, f"no answer within {GRACE} s")
        return answers

    def unreachable(self) -> dict[str, str]:
        """Return {host: why} of the plan's hosts that do not answer now."""
        return {
            host: " ".join(said.split())[-200:] or "ssh ended without a word"
            for host, (code, said) in self.on_every_host(["true"]).items()
            if code
        }

    def out_of_memory(self) -> list[str]:
        """Return the hosts whose kernel has ended a process for want of memory since their ranks began."""
        first = {beat["host"]: beat["first_oom_kills"] for beat in self.beats.values() if beat["first_oom_kills"] >= 0}
        found = []
        for host, (code, said) in self.on_every_host(["grep", "-w", "oom_kill", "/proc/vmstat"]).items():
            counted = re.search(r"^oom_kill (\d+)$", said, re.MULTILINE)
            if not code and counted and host in first and int(counted[1]) > first[host]:
                found.append(host)
        return found

    def end(self) -> None:
        """End mpirun, which ends its ranks on every host."""
        assert self.mpirun is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            # SIGKILL also when mpirun has ended in time: what it left behind is to end with it.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.mpirun.pid, number)
                self.mpirun.wait(GRACE)
        self.mpirun.wait()

    def reap(self) -> None:
        """End what is left of the job on every host that answers."""
        python = f"{self.plan['environment']}/bin/python"
        script = str(self.folder / "supervise.py")
        self.on_every_host([python, "-S", script, "--reap", str(self.folder)])

    def may_restart(self, reason: str) -> bool:
        """Tell whether the job is to be started again after it failed with `reason`."""
        attempts = self.status["attempts"]
        if len(attempts) > self.job.get("restarts", 0) or not attempts[-1]["returncode"]:
            return False
        if not self.has_stepped() and attempts[-1]["from"] == "the beginning" and not self.gone:
            self.status["notes"].append("not restarted: it failed before its first step and would again")
            return False
        return True

    def has_stepped(self) -> bool:
        """Tell whether a rank of the last attempt made a step."""
        progress = directory.read_json(self.folder / "progress.json") or {}
        return progress.get("step", 0) > 0 or any(beat.get("stepped") for beat in self.beats.values())

    def prepare_restart(self) -> str:
        """Plan anew for the hosts that answer and bring them the last whole checkpoint; return why that cannot be."""
        names = [host["host"] for host in self.plan["hosts"]]
        deadline = time.monotonic() + RETURN
        while True:
            gone = self.unreachable()
            left = [name for name in names if name not in gone]
            least = self.job.get("min_hosts") or len(names)
            if len(left) >= least or time.monotonic() > deadline or self.stop_wanted:
                break
            time.sleep(2)
        if self.stop_wanted:
            return ""
        if len(left) < least:
            return (
                f"{', '.join(gone)} did not answer within {RETURN} s and the job needs {least} host(s): bring it back "
                "and start the job again, or let it go on with fewer (min_hosts)"
            )
        self.replan(left, self.status)
        return self.bring_checkpoint()

    def replan(self, names: list[str], earlier: dict[str, Any]) -> None:
        """Write plan, host file and launch.sh for these hosts and the last whole checkpoint.

        earlier: ranks and accumulation of the run that left the checkpoint, as far as they are known.
        """
        stack = json.loads(Path(self.plan["environment"], "amx-cluster.json").read_text(encoding="utf-8"))
        self.plan = on_hosts(self.plan, names)
        args = dict(self.job["args"])
        after = self.plan["world_size"]
        before = earlier.get("ranks") or after
        # In units of what a rank takes at once.
        batch = before * (earlier.get("accumulation") or accumulation(args))
        if after != before or batch != after * accumulation(args):
            note = f"{after} instead of {before} ranks on {', '.join(names)}; " if after != before else ""
            if self.job.get("keep_global_batch") and batch % after == 0:
                args["gradient_accumulation_steps"] = batch // after
                note += f"the global batch stays as it was, with {batch // after} steps of accumulation"
            else:
                note += f"the global batch is {Fraction(after * accumulation(args), batch)} of what it was"
            self.status["notes"].append(note)
            self.job["args"] = args
        resumed = checkpoints.last_whole(self.folder / "output")
        if resumed and self.job.get("trainer", True):
            args["resume_from_checkpoint"] = f"output/{resumed.name}"
        arguments = run_files.script_arguments({**self.job, "args": args}, stack, self.plan)
        write_json(self.folder / "plan.json", self.plan)
        for name, content in {
            "hostfile": run_files.hostfile(self.plan),
            "env": run_files.environment_file(self.plan),
            "launch.sh": run_files.launch_script(self.plan, run_files.script_path(self.job), arguments),
        }.items():
            (self.folder / name).write_text(content, encoding="utf-8")
        self.status.update(hosts=len(names), ranks=after, accumulation=accumulation(args))

    def bring_checkpoint(self) -> str:
        """Copy the plan and the last whole checkpoint to the other hosts; return why that failed."""
        resumed = checkpoints.last_whole(self.folder / "output")
        for host in [entry["host"] for entry in self.plan["hosts"] if entry["host"] != self.here]:
            steps = [(f"plan.json could not be copied to {host}", self.copy("plan.json", host))]
            if resumed and not self.job.get("shared_directory"):
                made = ["ssh", "-o", "BatchMode=yes", host, shlex.join(["mkdir", "-p", f"{self.folder}/output"])]
                steps.append((f"{host} has no room for the checkpoint", made))
                steps.append(
                    (f"{resumed.name} could not be copied to {host}", self.copy(f"output/{resumed.name}", host))
                )
            for problem, command in steps:
                try:
                    subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
                except subprocess.CalledProcessError as error:
                    return f"{problem}: {error.stderr.strip()}"
                except subprocess.TimeoutExpired:
                    return f"{problem} within an hour"
        return ""

    def copy(self, name: str, host: str) -> list[str]:
        """Return the command that copies something of the job directory to the same place on another host."""
        path = self.folder / name
        return ["scp", "-rqB", str(path), f"{host}:{path.parent}/"]

    def save(self) -> None:
        write_json(self.folder / "status.json", self.status)


def detach(folder: Path) -> None:
    """Go on in a process of a session of its own, with no tie to the terminal or connection that started this one.

    The process that was started ends when the other has written status.json, so that whoever looks then finds it.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.read(reader, 1)
        os._exit(0 if (folder / "status.json").exists() else 1)
    os.close(reader)
    os.setsid()
    with (folder / "supervise.log").open("ab") as own_log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(own_log.fileno(), 1)
        os.dup2(own_log.fileno(), 2)
    supervisor = Supervisor(folder)
    # A job holds the hosts of its plan: this one only when it is among them.
    ours = supervisor.here in [host["host"] for host in supervisor.plan["hosts"]]
    holding = (folder / ("hold.supervisor" if ours else "supervisor.lock")).open("wb")
    fcntl.flock(holding, fcntl.LOCK_EX)
    # Before anyone can know the process to send it to.
    requested = ("stopped", "it was stopped on request")
    ended = ("lost", "its supervisor was asked to end, as when the head shuts down")
    signal.signal(directory.STOP, lambda *_signal: supervisor.stop(*requested))
    signal.signal(signal.SIGTERM, lambda *_signal: supervisor.stop(*ended))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.save()
    os.close(writer)
    supervisor.run()


if __name__ == "__main__":
    if sys.argv[1] == "--reap":
        processes.end(Path(sys.argv[2]), grace=5)
    else:
        detach(Path(sys.argv[1]).resolve())
