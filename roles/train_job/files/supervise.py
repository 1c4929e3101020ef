"""Run a job on the head until it ends, and keep its state where anyone can read it.

    python -S supervise.py JOB_DIRECTORY

Started in a session of its own, so that it outlives the connection that started it. Writes status.json whenever the
state changes, and results.json at the end. States: running, succeeded, failed, stopped (by SIGTERM).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

GRACE = 10  # seconds that mpirun has to end its ranks after SIGTERM


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file; None when it is not there or not whole."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


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


class Supervisor:
    """One run of the job in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        self.plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.status: dict[str, Any] = {
            "job": self.job["name"],
            "state": "running",
            "reason": "",
            "pid": os.getpid(),
            "started": now(),
            "hosts": len(self.plan["hosts"]),
            "ranks": self.plan["world_size"],
        }
        self.stop_wanted = False
        self.mpirun: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run launch.sh to its end and write what came of it."""
        begun = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            self.mpirun = subprocess.Popen(
                ["bash", "launch.sh"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.status["launch_pid"] = self.mpirun.pid
        self.save()
        reason = self.wait()
        seconds = time.monotonic() - begun
        world = read_json(self.folder / "world.json")
        metrics = read_json(self.folder / "output" / "all_results.json") or {}
        code = self.mpirun.returncode
        if self.stop_wanted and not reason:
            self.status.update(state="stopped", reason="it was stopped on request")
        else:
            if not reason and code:
                reason = f"mpirun ended with exit code {code}; the log tells why"
            reason = reason or wrong_world(self.plan, world) or missed(self.job["expect"], metrics)
            self.status.update(state="failed" if reason else "succeeded", reason=reason)
        self.status.update(returncode=code, ended=now(), seconds=round(seconds, 1))
        write_json(
            self.folder / "results.json",
            {
                **{
                    key: self.status[key]
                    for key in ("job", "state", "reason", "started", "ended", "seconds", "hosts", "ranks")
                },
                "threads_per_rank": [host["threads_per_rank"] for host in self.plan["hosts"]],
                "precision": self.plan["precision"],
                "backend": self.plan["backend"],
                "stack": self.plan["stack"],
                "metrics": metrics,
                "world": world,
                "output": str(self.folder / "output"),
            },
        )
        self.save()

    def wait(self) -> str:
        """Wait for mpirun; return why it had to be ended, or an empty string when it ended by itself."""
        assert self.mpirun is not None
        while self.mpirun.poll() is None:
            reason = self.overdue()
            if self.stop_wanted or reason:
                self.end()
                return reason
            time.sleep(0.2)
        return ""

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

    def end(self) -> None:
        """End mpirun, which ends its ranks on every host."""
        assert self.mpirun is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            # SIGKILL also when mpirun has ended in time: what it left behind is to end with it.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.mpirun.pid, number)
                self.mpirun.wait(GRACE)

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
    holding = (folder / "hold.supervisor").open("wb")
    fcntl.flock(holding, fcntl.LOCK_EX)
    supervisor = Supervisor(folder)
    # Before anyone can know the process to send it to.
    signal.signal(signal.SIGTERM, lambda *_signal: setattr(supervisor, "stop_wanted", True))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.save()
    os.close(writer)
    supervisor.run()


if __name__ == "__main__":
    detach(Path(sys.argv[1]).resolve())
