from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.torchrun import LAUNCHER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from support.runs import host, plan

# STAND-INS (no hosts here, a scenario has those): every host is this machine, and torchrun shows how it was called.
SSH = """#!/bin/bash
while [ "$1" = -o ]; do shift 2; done
echo "$*" >> "$LOG/ssh"
shift
exec bash -c "$*"
"""
TORCHRUN = """#!/bin/bash
echo "$MASTER_PORT $AMX_CLUSTER_BEAT $*" >> "$LOG/torchrun"
[ ! -e "$LOG/fails" ] || { case " $* " in *" --node_rank=1 "*) exit 3;; *) sleep 60;; esac; }
"""
PYTHON = """#!/bin/bash
case "$*" in *--reap*) echo "$*" >> "$LOG/reaped";; *) exec {python} "$@";; esac
"""


def test_what_the_job_sets_torchrun_to() -> None:
    made = plan(host("node0", 1), launcher="torchrun", env_launcher={"TORCH_CPP_LOG_LEVEL": "INFO"})
    assert LAUNCHER.files(Plan.from_json(made), [])["env"].splitlines()[-1] == "TORCH_CPP_LOG_LEVEL=INFO"


class Directory:
    """A job directory with the launcher's files, and programs that note how they were called."""

    def __init__(self, path: Path, made: dict[str, Any], words: list[str]) -> None:
        self.path = path / "the job"
        env = path / "my env"
        for folder in (self.path, env / "bin"):
            folder.mkdir(parents=True)
        programs = {"ssh": SSH, "torchrun": TORCHRUN, "python": PYTHON.format(python=sys.executable)}
        for name, content in programs.items():
            (env / "bin" / name).write_text(content.replace("$LOG", str(path)))
            (env / "bin" / name).chmod(0o755)
        for name, content in LAUNCHER.files(Plan.from_json({**made, "environment": str(env)}), words).items():
            (self.path / name).write_text(content)
        self.log = path
        self.python = env / "bin" / "python"

    def launch(self) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "AMX_CLUSTER_BEAT": "10.0.0.1:4242:token"}
        return subprocess.Popen(["bash", str(self.path / "launch.sh")], env=environ, cwd="/", start_new_session=True)

    def lines(self, name: str) -> list[str]:
        return sorted((self.log / name).read_text().splitlines())


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    made = plan(host("node0", 2), host("node1", 1), launcher="torchrun")
    return Directory(tmp_path, made, ["train it.py", "--text", "it's $HOME"])


def test_torchrun_is_started_on_every_host(directory: Directory) -> None:
    assert directory.launch().wait(20) == 0
    calls = [shlex.split(line) for line in directory.lines("ssh")]
    port = calls[0][-1]
    # On the head without SSH.
    assert calls == [["node1", "bash", f"{directory.path}/torchrun.sh", "1", "1", port]]
    rank = f"--no_python {directory.python} -S /opt/runtime/0123 rank train it.py --text it's $HOME"
    assert directory.lines("torchrun") == [
        f"{port} 10.0.0.1:4242:token --nnodes=2 --node_rank={number} --nproc_per_node={count} --rdzv_backend=static "
        f"--max_restarts=0 --master_addr=10.0.0.1 --master_port={port} {rank}"
        for number, count in ((0, 2), (1, 1))
    ]


def test_the_first_host_that_fails_ends_the_others(directory: Directory) -> None:
    (directory.log / "fails").touch()
    assert directory.launch().wait(20) == 3
    assert directory.lines("reaped") == [f"-S /opt/runtime/0123 supervise --reap {directory.path}"] * 2


def test_a_launch_that_is_ended_ends_the_hosts(directory: Directory) -> None:
    (directory.log / "fails").touch()
    script = directory.path.parent / "my env/bin/torchrun"
    script.write_text(script.read_text().replace("exit 3", "sleep 60"))
    process = directory.launch()
    deadline = time.monotonic() + 20
    while not (directory.log / "torchrun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, 15)
    assert process.wait(20) == 143
    assert len(directory.lines("reaped")) == 2


# What torchrun of torch 2.13.0 printed when the second of two ranks was ended by SIGKILL, shortened to what is read.
REPORT = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
======================================================
/opt/env/bin/python FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_16:58:49
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 9994)  (SIGTERM)
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_16:58:49
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 9995)  (SIGKILL)
======================================================
"""


def test_a_rank_that_was_killed() -> None:
    made = plan(host("node0", 1), host("node1", 1), launcher="torchrun")
    assert LAUNCHER.killed(REPORT, Plan.from_json(made)) == Killed(1, "node1", 9)
    assert LAUNCHER.killed(REPORT.replace("exitcode  : -9", "exitcode  : 1"), Plan.from_json(made)) is None
