from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes, wire
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from support.patience import started, until

pytestmark = pytest.mark.slow


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


def known(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By what processes were recognized, without what they use."""
    return [{key: process[key] for key in ("pid", "kind", "job", "ports")} for process in found]


def test_every_launcher_has_its_programs() -> None:
    assert list(processes.PROGRAMS) == list(LAUNCHERS)


def test_a_rank_is_known_by_its_environment(tmp_path: Path, rank: tuple[subprocess.Popen[str], int]) -> None:
    process, port = rank
    jobs = tmp_path / "jobs"
    assert known(processes.find_in(jobs)) == [
        {"pid": process.pid, "kind": "rank", "job": str(jobs / "gone"), "ports": [port]}
    ]
    assert processes.find_in(tmp_path / "elsewhere") == []
    (tmp_path / "link").symlink_to(jobs)
    jobs.mkdir()
    assert len(processes.find_in(tmp_path / "link")) == 1


def proc_entry(proc: Path, pid: int, command: list[str], cwd: Path, **environ: str) -> None:
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    (entry / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
    (entry / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environ.items()))
    (entry / "cwd").symlink_to(cwd)
    (entry / "stat").write_text(f"{pid} (a) b) S " + " ".join(str(number) for number in range(4, 53)))
    (entry / "status").write_text("Name:\ta\nCpus_allowed_list:\t0-3,8\n")


def test_ranks_that_have_ended(tmp_path: Path) -> None:
    """Of one start, on this host; a number that another process has got since is not the rank's."""
    proc = tmp_path / "proc"
    for pid in (10, 11):
        proc_entry(proc, pid, ["python"], tmp_path)  # began at 22: stat's fields count from 4
    (proc / "12").mkdir()
    (proc / "12" / "stat").write_text("12 (x) Z " + " ".join(str(number) for number in range(4, 53)))
    record = {"pid": 10, "began": "22", "machine": wire.machine(), "attempt": "a", "code": None}
    records = {
        "0": record,
        "1": {**record, "pid": 11, "began": "21"},
        "2": {**record, "pid": 12},
        "3": {**record, "pid": 99},
        "4": {**record, "pid": 99, "code": 3},
        "5": {**record, "pid": 99, "attempt": "b"},
        "6": {**record, "pid": 99, "machine": "another"},
        "entered": {"pid": 1},
    }
    (tmp_path / "ranks").mkdir()
    for name, content in records.items():
        (tmp_path / "ranks" / f"{name}.json").write_text(json.dumps(content))
    assert processes.ended_ranks(tmp_path, "a", proc) == {1: -9, 2: -9, 3: -9, 4: 3}


def test_a_launcher_is_known_by_its_name_and_directory(tmp_path: Path) -> None:
    jobs, proc = tmp_path / "jobs", tmp_path / "proc"
    (jobs / "demo").mkdir(parents=True)
    proc_entry(proc, 10, ["/opt/amx-cluster/env/bin/hydra_pmi_proxy", "--usize", "-1"], jobs / "demo")
    proc_entry(proc, 11, ["bash"], jobs / "demo")  # a person who looks around there
    proc_entry(proc, 12, ["hydra_pmi_proxy"], tmp_path)  # another program's
    proc_entry(proc, 13, [], jobs / "demo")  # a zombie
    proc_entry(proc, 14, ["python"], tmp_path, AMX_CLUSTER_JOB=str(jobs / "other"))
    (proc / "self").mkdir()
    (proc / "15").mkdir()  # it ended while it was looked at
    assert known(processes.find_in(jobs, proc)) == [
        {"pid": 10, "kind": "launcher", "job": str(jobs / "demo"), "ports": []},
        {"pid": 14, "kind": "rank", "job": str(jobs / "other"), "ports": []},
    ]


def test_listening_ports_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in processes.listening_ports(Path("/proc/self"))
    assert port not in processes.listening_ports(Path("/proc/self"))
    assert processes.listening_ports(Path("/proc/nonexistent")) == []


def test_running(tmp_path: Path) -> None:
    manual: list[dict[str, Any]] = [{"kind": "launcher", "job": "/jobs/manual"}, {"kind": "rank", "job": "/jobs/gone"}]
    assert processes.running_jobs(tmp_path / "none", manual) == ["/jobs/manual"]
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "status.json").write_text('{"state": "running", "pid": 999999999}')
    assert processes.running_jobs(tmp_path, []) == []
    supervisor = [sys.executable, "-c", "print(flush=True); input()", "supervise", str(tmp_path / "demo")]
    with started(supervisor) as process:
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "status.json").write_text(f'{{"state": "running", "pid": {process.pid}}}')
        assert processes.running_jobs(tmp_path, []) == [str(tmp_path / "demo")]


def test_what_a_process_uses(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc_entry(proc, 10, ["python", "train.py"], tmp_path, AMX_CLUSTER_JOB="/jobs/demo", RANK="3")
    proc_entry(proc, 11, ["python"], tmp_path, AMX_CLUSTER_JOB="/jobs/demo", RANK="first")
    tick = os.sysconf("SC_CLK_TCK")
    first, second = processes.find(Path("/jobs/demo"), proc)
    assert first == {
        "pid": 10,
        "kind": "rank",
        "job": "/jobs/demo",
        "rank": 3,
        "threads": 20,  # the numbers are proc(5)'s numbers of the fields
        "cpus": "0-3,8",
        "rss_bytes": 24 * os.sysconf("SC_PAGE_SIZE"),
        "cpu_seconds": (14 + 15) / tick,
        "page_reads": 12,
        "ports": [],
        "command": "python train.py",
    }
    assert second["rank"] == -1
    assert processes.find(Path("/jobs/other"), proc) == []


@pytest.fixture
def spinning(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Rank 1 of the job in tmp_path, which keeps a CPU busy."""
    environ = {**os.environ, "AMX_CLUSTER_JOB": str(tmp_path), "RANK": "1"}
    with started([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], env=environ) as process:
        yield process


def test_usage_is_measured(tmp_path: Path, spinning: subprocess.Popen[bytes]) -> None:
    (found,) = processes.usage(tmp_path, 0.5)
    assert (found["pid"], found["rank"], found["threads"]) == (spinning.pid, 1, 1)
    assert 0.05 < found["cpu"] < 1.2
    assert found["cpus"]


def test_what_could_run_is_at_work(tmp_path: Path, spinning: subprocess.Popen[bytes]) -> None:
    assert processes.usage_of_ranks(tmp_path, 0.1)[1] >= 1
    spinning.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, spinning.pid, os.WSTOPPED)
    assert processes.usage_of_ranks(tmp_path, 0.1) == {1: 0.0}


def test_what_can_run_at_one_moment_only_is_not(tmp_path: Path, spinning: subprocess.Popen[bytes]) -> None:
    """As the heartbeat of a rank that hangs, on a host with much else to do: it waits for a processor now and then."""
    spinning.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, spinning.pid, os.WSTOPPED)
    wakes = threading.Timer(0.7, spinning.send_signal, [signal.SIGCONT])
    wakes.start()
    assert processes.usage_of_ranks(tmp_path, 1)[1] < 0.9
    wakes.join()


PAGES = """
import mmap, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(1 << 20)); os.fsync(file)
print(flush=True)
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(file, 1 << 20, prot=mmap.PROT_READ) as memory:
        memory[0]; memory[1 << 19]
    time.sleep(0.02)
"""


def test_a_program_that_is_read_from_a_disk_is_at_work(tmp_path: Path) -> None:
    environ = {**os.environ, "AMX_CLUSTER_JOB": str(tmp_path), "RANK": "1"}
    with started([sys.executable, "-c", PAGES, str(tmp_path / "file")], env=environ) as process:
        (found,) = processes.usage(tmp_path, 1)
        if not found["page_reads"]:
            pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
        assert processes.usage_of_ranks(tmp_path, 1)[1] >= 1
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert processes.usage_of_ranks(tmp_path, 0.5) == {1: 0.0}


def test_orphans_are_found(tmp_path: Path) -> None:
    """What the launcher left behind has another parent, and is found nevertheless."""
    environ = {**os.environ, "AMX_CLUSTER_JOB": str(tmp_path), "RANK": "0"}
    subprocess.run(["bash", "-c", "sleep 1000 &"], env=environ, check=True)
    until(lambda: [found["command"] for found in processes.find(tmp_path)] == ["sleep 1000"])  # first a copy of bash
    (found,) = processes.find(tmp_path)
    assert processes.end(tmp_path, grace=5)[0]["pid"] == found["pid"]


def test_a_process_that_does_not_end_is_named(tmp_path: Path) -> None:
    stuck = {"pid": 2**22 + 1}  # above the largest process number: no signal reaches it

    with pytest.raises(TimeoutError, match=f"^processes {2**22 + 1} of {tmp_path} do not end$"):
        processes.end(tmp_path, grace=0, find_now=lambda _folder: [stuck])


def test_launchers_that_are_not_of_our_jobs(tmp_path: Path) -> None:
    """Real processes, under the name of Intel MPI's proxy."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text("#!/bin/sh\nread _word\n")
    proxy.chmod(0o755)
    ours, other = tmp_path / "jobs" / "demo", tmp_path / "elsewhere" / "demo"
    for place in (ours, other):
        place.mkdir(parents=True)
    with contextlib.ExitStack() as running:
        first, second = (
            running.enter_context(subprocess.Popen([str(proxy)], cwd=place, stdin=subprocess.PIPE))
            for place in (ours, other)
        )
        until(lambda: second.pid in {found["pid"] for found in processes.foreign(tmp_path / "jobs")})
        found = {process["pid"]: process for process in processes.foreign(tmp_path / "jobs")}
        assert first.pid not in found
        assert found[second.pid] == {
            "pid": second.pid,
            "user": pwd.getpwuid(os.getuid()).pw_name,
            "command": "hydra_pmi_proxy",
            "directory": str(other),
        }
        (line,) = processes.foreign_lines("node1", [found[second.pid]])
        assert line == (
            f"node1 is used by hydra_pmi_proxy (process {second.pid}) of user {found[second.pid]['user']} in {other}"
        )
        for process in (first, second):
            process.kill()
    assert processes.foreign_lines("node1", [{"command": "torchrun", "pid": 7, "user": "ann", "directory": ""}]) == [
        "node1 is used by torchrun (process 7) of user ann"
    ]


def test_locks_of_other_jobs() -> None:
    locks = [{"job": "demo", "user": "ann", "since": "x"}, {"job": "other", "user": "bob", "since": "2026-01-01"}]
    assert processes.locked_lines("node1", locks, "demo") == ["node1 is locked by job other of bob since 2026-01-01"]


@pytest.mark.parametrize("way", ["link", "bind mount"])
def test_a_job_is_found_by_every_name_of_its_directory(tmp_path: Path, way: str) -> None:
    job = tmp_path / "real/jobs/demo"
    job.mkdir(parents=True)
    env = tmp_path / "real/envs/native"
    env.mkdir(parents=True)
    other = tmp_path / "other"
    if way == "link":
        other.symlink_to(tmp_path / "real")
    else:
        other.mkdir()
        if os.geteuid() or subprocess.run(["mount", "--bind", tmp_path / "real", other], check=False).returncode:
            pytest.skip("it takes root to mount")
    command = [sys.executable, "-c", "print(flush=True); input()", str(env / "bin/python")]
    try:
        with started(command, env={**os.environ, processes.OF_JOB: str(job), "RANK": "0"}) as process:
            for top in (tmp_path / "real", other, Path(f"{other}/")):
                assert [found["pid"] for found in processes.find(top / "jobs/demo")] == [process.pid]
                assert [found["job"] for found in processes.find_in(top / "jobs")] == [
                    str((top / "jobs/demo").resolve())
                ]
                assert venv.busy(top / "envs/native")
                assert not venv.busy(top / "envs/nat")
    finally:
        if way != "link":
            subprocess.run(["umount", "--lazy", other], check=True)
