from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _leftovers

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that takes itself for a rank of the job `gone`, and the port on which it listens."""
    environ = {**os.environ, "AMX_CLUSTER_JOB": str(tmp_path / "jobs" / "gone")}
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        yield process, int(process.stdout.readline())
        process.stdin.close()


def test_a_rank_is_known_by_its_environment(tmp_path: Path, rank: tuple[subprocess.Popen[str], int]) -> None:
    process, port = rank
    jobs = tmp_path / "jobs"
    assert _leftovers.processes(jobs) == [
        {"pid": process.pid, "kind": "rank", "job": str(jobs / "gone"), "ports": [port]}
    ]
    assert _leftovers.processes(tmp_path / "elsewhere") == []
    (tmp_path / "link").symlink_to(jobs)
    jobs.mkdir()
    assert len(_leftovers.processes(tmp_path / "link")) == 1


def proc_entry(proc: Path, pid: int, command: list[str], cwd: Path, **environ: str) -> None:
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    (entry / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
    (entry / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environ.items()))
    (entry / "cwd").symlink_to(cwd)


def test_a_starter_is_known_by_its_name_and_folder(tmp_path: Path) -> None:
    jobs, proc = tmp_path / "jobs", tmp_path / "proc"
    (jobs / "demo").mkdir(parents=True)
    proc_entry(proc, 10, ["/opt/amx-cluster/env/bin/hydra_pmi_proxy", "--usize", "-1"], jobs / "demo")
    proc_entry(proc, 11, ["bash"], jobs / "demo")  # a person who looks around there
    proc_entry(proc, 12, ["hydra_pmi_proxy"], tmp_path)  # another program's
    proc_entry(proc, 13, [], jobs / "demo")  # a zombie
    proc_entry(proc, 14, ["python"], tmp_path, AMX_CLUSTER_JOB=str(jobs / "other"))
    (proc / "self").mkdir()
    (proc / "15").mkdir()  # it ended while it was looked at
    assert _leftovers.processes(jobs, proc) == [
        {"pid": 10, "kind": "starter", "job": str(jobs / "demo"), "ports": []},
        {"pid": 14, "kind": "rank", "job": str(jobs / "other"), "ports": []},
    ]


def test_listening_ports_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in _leftovers.listening_ports(Path("/proc/self"))
    assert port not in _leftovers.listening_ports(Path("/proc/self"))
    assert _leftovers.listening_ports(Path("/proc/nonexistent")) == []


def test_running(tmp_path: Path) -> None:
    by_hand: list[dict[str, Any]] = [{"kind": "starter", "job": "/jobs/by_hand"}, {"kind": "rank", "job": "/jobs/gone"}]
    assert _leftovers.running(tmp_path / "none", by_hand) == ["/jobs/by_hand"]
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "status.json").write_text('{"state": "running", "pid": 999999999}')
    assert _leftovers.running(tmp_path, []) == []
    supervisor = [sys.executable, "-c", "print(flush=True); input()", "supervise.py", str(tmp_path / "demo")]
    with subprocess.Popen(supervisor, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()  # now it runs
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "status.json").write_text(f'{{"state": "running", "pid": {process.pid}}}')
        assert _leftovers.running(tmp_path, []) == [str(tmp_path / "demo")]
        process.stdin.write(b"\n")
        process.stdin.close()
