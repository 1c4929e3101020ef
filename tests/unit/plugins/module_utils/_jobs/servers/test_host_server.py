"""The server of a host with real processes, whose instances are a small program instead of a model."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, inference_requests
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import (
    front,
    host_server,
    ready,
    states,
    unit,
    version,
)
from support import checkout, haproxy
from support.clock import SetClock
from support.served import ask, free_ports

# In the place of Python: answers on its socket what the file `answer` of its job directory has, until SIGTERM. What the
# files `hangs`, `broken` and `sick` do where they are there is to be seen.
INSTANCE = """\
import os, pathlib, signal, socket, subprocess, sys, time
path = sys.argv[sys.argv.index("--socket") + 1]
while pathlib.Path("hangs").exists():
    time.sleep(0.1)
if pathlib.Path("broken").exists():
    rank = os.environ["AMX_CLUSTER_INSTANCE"]  # as the observer writes it
    sys.exit(f"--- rank {rank} on node0 failed ---\\nthe model is broken\\n--- end of rank {rank} ---")
answer = pathlib.Path("answer").read_text().encode()
words = ["sleep", "1000"]
if pathlib.Path("shares").exists():
    words = [sys.executable, "-c", "import multiprocessing.shared_memory as m, pathlib, time\\n"
             "shared = m.SharedMemory(create=True, size=1)\\npathlib.Path('shared').write_text(shared.name)\\n"
             "time.sleep(1000)"]
child = subprocess.Popen(words, env={**os.environ, "AMX_CLUSTER_JOB": os.getcwd()})  # as vLLM has
with open("children", "a") as file:
    file.write(f"{child.pid}\\n")
made = socket.socket(socket.AF_UNIX)
made.bind(path)
made.listen(64)
late = pathlib.Path("late").exists()
signal.signal(signal.SIGTERM, lambda *_: (child.kill(), time.sleep(2 * late), os._exit(0)))
head = b"HTTP/1.1 %d OK\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n"
while True:
    asked, _ = made.accept()
    asked.recv(1 << 16)
    status = 503 if pathlib.Path("sick").exists() else 200
    asked.sendall(head % (status, len(answer)) + answer)
    asked.close()
"""
ENVIRON = {**os.environ, "PYTHONPATH": checkout.importable(checkout.ROOT / "runtime")}
SERVE = "from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import host_server as s; import sys; "


def write(path: Path, start: str, port: int, answer: str, instances: int = 2, **limits: float) -> None:
    """Write a job directory as `place` does."""
    environment = path.parent.parent / "env"
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    program = environment / "bin/python"
    if not program.exists():
        program.write_text(f"#!{sys.executable}\n{INSTANCE}")
        program.chmod(0o700)
    ranks = [{"rank": number, "domain_cpus": [number]} for number in range(instances)]
    request = {"cell": {}, "columns": [], "trained_on": [], "address": "", "port": port, "limits": limits}
    plan = {
        "environment": str(environment),
        "runtime": "runtime",
        "world_size": instances,
        "launcher": {"name": "instances", "shares_hosts": True},
        "hosts": [{"host": "node0", "address": "127.0.0.1", "ranks": ranks}],
    }
    path.mkdir(parents=True)
    job = {
        "job": {"name": "m-serve", "script": str(inference_requests.SERVER), "request": request},
        "settings": {"start": start, "head": "node0"},
    }
    for name, content in (("job.json", job), ("plan.json", plan)):
        (path / name).write_text(json.dumps(content))
    (path / "host").write_text("node0\n")
    (path / "answer").write_text(answer)


class Served:
    """A server in a directory of its own."""

    def __init__(self, place: Path) -> None:
        haproxy.path()
        self.path, self.port = place / "jobs/m-serve", free_ports()
        self.processes: list[subprocess.Popen[bytes]] = []

    def write(self, start: str, answer: str, instances: int = 2, **limits: float) -> None:
        write(self.path, start, self.port, answer, instances, **limits)

    def begin(self, change: str = "") -> subprocess.Popen[bytes]:
        """Start it. change: of its module, s, in Python."""
        words = [sys.executable, "-c", f"{SERVE}{change}\ns.main(sys.argv[1:])", str(self.path), "supervise"]
        self.processes.append(subprocess.Popen(words, cwd="/", env=ENVIRON))
        return self.processes[-1]

    def status(self, path: Path | None = None) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(((path or self.path) / "status.json").read_text()))
        return {}

    def states(self) -> list[str]:
        return [instance["state"] for instance in self.status().get("instances", [])]

    def children(self) -> list[int]:
        """Return the processes that instances have started and that run."""
        return [pid for pid in map(int, (self.path / "children").read_text().split()) if _is_running(pid)]

    def places(self) -> list[Path]:
        """Return the directories of sockets of this server."""
        files = Path("/tmp").glob("amx-serve-*/haproxy.cfg")
        return [file.parent for file in files if f"127.0.0.1:{self.port}\n" in file.read_text()]

    def is_up(self) -> bool:
        """Return whether all instances answer, and HAProxy has seen it."""
        states = self.states()
        if not states or set(states) != {"ready"}:
            return False
        metrics = ask(self.port, "/metrics")[1]
        up = re.findall(r'^haproxy_server_status{proxy="all",.*state="UP"} 1$', metrics, re.MULTILINE)
        return len(up) == len(states)

    def answers(self) -> set[str]:
        texts = set()
        for _request in range(10):
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, content, _headers = ask(self.port, "/predict", b"{}")
                texts.add(content if status == 200 else str(status))
        return texts

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def until(is_so: Callable[[], object], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
def test_instances_serve_are_started_again_and_stopped(served: Served) -> None:
    served.write("1", "first")
    process = served.begin()
    assert until(served.is_up)
    assert served.answers() == {"first"}
    assert directory.running(served.path)
    killed = served.status()["instances"][1]["pid"]
    os.kill(killed, signal.SIGKILL)
    assert served.answers() == {"first"}  # the other one answers meanwhile
    assert until(lambda: served.states() == ["ready", "ready"] and served.status()["instances"][1]["restarts"] == 1)
    assert len(served.places()) == 1
    assert until(lambda: len(served.children()) == 2)  # that of the killed one was killed
    os.kill(process.pid, directory.STOP)
    assert process.wait(60) == 0
    assert (served.status()["state"], served.status()["reason"]) == ("stopped", "it was stopped on request")
    assert not served.places()
    assert not served.children()
    with pytest.raises(OSError, match="refused"):
        ask(served.port, "/health")


@pytest.mark.slow
def test_a_server_that_was_killed_serves_again_and_one_that_was_stopped_does_not(served: Served) -> None:
    served.write("1", "first")
    process = served.begin()
    assert until(lambda: served.states() == ["ready", "ready"])
    pids = [instance["pid"] for instance in served.status()["instances"]]
    process.send_signal(signal.SIGSTOP)
    os.kill(pids[0], signal.SIGKILL)  # what it has started goes on
    process.kill()
    process.wait()
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() and _is_running(pid) for pid in pids))
    again = served.begin()
    assert until(lambda: served.status()["pid"] == again.pid and served.states() == ["ready", "ready"])
    assert until(lambda: served.answers() == {"first"})
    assert len(served.children()) == 2  # those of the killed server were killed
    os.kill(again.pid, signal.SIGTERM)  # as when the host shuts down
    assert again.wait(60) == 0
    assert served.status()["state"] == "running"
    third = served.begin()
    assert until(lambda: served.status()["pid"] == third.pid and served.states() == ["ready", "ready"])
    os.kill(third.pid, directory.STOP)
    assert third.wait(60) == 0
    assert served.begin().wait(60) == 0
    assert served.status()["state"] == "stopped"


@pytest.mark.slow
def test_what_a_killed_instance_shares_is_removed(served: Served) -> None:
    """As vLLM's memory of 400 MB below /dev/shm, which is removed by a process that its engine has started."""
    served.write("1", "first", instances=1)
    (served.path / "shares").touch()
    shared = served.path / "shared"
    process = served.begin()
    assert until(lambda: served.states() == ["ready"] and shared.exists() and shared.read_text())
    memory = Path("/dev/shm") / shared.read_text()
    assert memory.exists()
    (instance,) = served.status()["instances"]
    os.kill(instance["pid"], signal.SIGKILL)
    assert until(lambda: not memory.exists())
    assert until(lambda: not _zombies(process.pid) and served.states() == ["ready"])


def _zombies(parent: int) -> list[str]:
    """Return the children of a process that have ended, and that it has not noticed."""
    shown = subprocess.run(["ps", "--ppid", str(parent), "-o", "stat="], capture_output=True, text=True, check=False)
    return [state for state in shown.stdout.split() if state.startswith("Z")]


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.slow
def test_a_model_is_replaced_while_requests_are_answered(served: Served) -> None:
    served.write("1", "first")
    process = served.begin()
    assert until(served.is_up)
    assert served.answers() == {"first"}
    aside = served.path.with_name("m-serve.20260101T000000Z")
    served.path.rename(aside)
    served.write("2", "second")
    os.kill(process.pid, signal.SIGHUP)
    seen: list[set[str]] = []
    assert until(lambda: seen.append(served.answers()) or served.status().get("start") == "2")  # type: ignore[func-returns-value]
    assert until(lambda: served.answers() == {"second"})
    assert set().union(*seen) <= {"first", "second"}
    assert served.status(aside)["state"] == "stopped"
    assert served.status()["started"] == served.status(aside)["started"]
    assert directory.running(served.path)
    assert not directory.running(aside)


@pytest.mark.slow
def test_a_new_model_is_healthy_while_the_earlier_one_still_answers(served: Served) -> None:
    served.write("1", "first", instances=1)
    (served.path / "late").touch()
    process = served.begin("s.ANSWER = 1.0")
    assert until(served.is_up)
    served.path.rename(served.path.with_name("m-serve.20260101T000000Z"))
    served.write("2", "second", instances=1)
    os.kill(process.pid, signal.SIGHUP)
    log = served.path / "log"
    assert until(lambda: log.exists() and "the new model is served" in log.read_text())
    time.sleep(1)
    assert "has not answered" not in log.read_text()


@pytest.mark.slow
def test_a_model_that_does_not_serve_leaves_the_earlier_one(served: Served) -> None:
    served.write("1", "first")
    process = served.begin()
    assert until(served.is_up)
    aside = served.path.with_name("m-serve.20260101T000000Z")
    served.path.rename(aside)
    served.write("2", "second")
    (served.path / "broken").touch()
    os.kill(process.pid, signal.SIGHUP)
    assert until(lambda: "refused" in served.status(aside))
    refused = served.status(aside)["refused"]
    assert refused["start"] == "2"
    assert refused["reason"].endswith("before it served: the model is broken")
    shutil.rmtree(served.path)
    aside.rename(served.path)
    assert served.answers() == {"first"}
    # Another number of instances needs other lines of HAProxy.
    served.path.rename(aside)
    served.write("3", "third", instances=1)
    os.kill(process.pid, signal.SIGHUP)
    assert until(lambda: served.status(aside)["refused"]["start"] == "3")
    assert "the number of instances" in served.status(aside)["refused"]["reason"]


@pytest.mark.slow
def test_a_model_whose_start_is_given_up_meanwhile_leaves_the_earlier_one(served: Served) -> None:
    served.write("1", "first", instances=1)
    process = served.begin()
    assert until(served.is_up)
    aside = served.path.with_name("m-serve.20260101T000000Z")
    served.path.rename(aside)
    served.write("2", "second", instances=1)
    (served.path / "answer").unlink()
    os.mkfifo(served.path / "answer")  # its instance waits for what is written to it
    os.kill(process.pid, signal.SIGHUP)
    given_up = served.path.with_name("given-up")
    fifo = os.open(served.path / "answer", os.O_WRONLY)  # waits for the instance
    served.path.rename(given_up)
    aside.rename(served.path)
    os.write(fifo, b"second")
    os.close(fifo)
    assert until(lambda: "refused" in served.status())
    assert served.status()["refused"] == {"start": "2", "reason": "its start was given up meanwhile"}
    assert not (given_up / "status.json").exists()
    assert served.answers() == {"first"}
    assert process.poll() is None


@pytest.mark.slow
def test_an_instance_that_hangs_or_is_sick_does_not_count_and_one_that_is_silent_is_started_again(
    served: Served,
) -> None:
    served.write("1", "first", hung=3)
    process = served.begin()
    assert until(served.is_up)
    (served.path / "sick").touch()
    assert until(lambda: served.states() == ["unhealthy", "unhealthy"])
    assert served.status()["instances"][0]["error"] == "answers /health with 503"
    (served.path / "sick").unlink()
    assert until(served.is_up)
    assert [instance["restarts"] for instance in served.status()["instances"]] == [0, 0]
    os.kill(served.status()["instances"][0]["pid"], signal.SIGSTOP)
    assert until(lambda: served.status()["instances"][0]["restarts"] == 1)
    assert until(served.is_up)
    log = (served.path / "log").read_text()
    assert "instance 0 did not answer for 3 s, and was killed: it is started again" in log
    for instance in served.status()["instances"]:
        os.kill(instance["pid"], signal.SIGSTOP)
    os.kill(process.pid, signal.SIGTERM)  # both have the same time to end
    assert process.wait(100) == 0


@pytest.mark.slow
def test_haproxy_that_is_silent_is_noticed_and_started_again(served: Served) -> None:
    served.write("1", "first", instances=1)
    process = served.begin("s.HAPROXY_SILENT = 2.0")
    assert until(served.is_up)
    assert until(lambda: states.is_ready(served.status()))
    subprocess.run(["pkill", "-STOP", "-P", str(process.pid), "haproxy"], check=True)
    assert until(lambda: served.status()["reason"] == "HAProxy has not answered for 2 s, and was killed")
    assert states.answering(served.status()) == 0
    assert until(lambda: states.is_ready(served.status()))
    assert served.answers() == {"first"}
    assert "HAProxy has not answered for 2 s, and was killed: it is started again" in (served.path / "log").read_text()
    os.kill(process.pid, directory.STOP)
    assert process.wait(60) == 0
    with pytest.raises(ValueError, match=r"^m-serve does not serve: it was stopped on request\nthe same command of"):
        ready.wait(str(served.path), 0)


@pytest.mark.slow
def test_a_model_that_hangs_while_it_is_loaded(served: Served) -> None:
    served.write("1", "first", load=2)
    (served.path / "hangs").touch()
    assert served.begin().wait(60) == 0
    reason = "on node0 did not load the model for 2 s, and was killed before it served"
    assert (served.status()["state"], reason in served.status()["reason"]) == ("failed", True)


def test_the_end_is_written_on_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = host_server.HostServer(version.Version(tmp_path, 0, {}, {}, "node0"), tmp_path)
    monkeypatch.setattr(version.Version, "files", tmp_path)
    server.status = {"job": "m-serve", "state": "running"}
    server.instances = [host_server.Instance(number, "socket") for number in range(4)]
    server.write()

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(server, "write", fail)
    server.leave("stopped", "it was stopped on request")
    written = json.loads((tmp_path / "status.json").read_text())
    assert (written["state"], written["job"], written["instances"]) == ("stopped", "m-serve", [])


def test_a_stop_is_not_undone_by_a_replacement() -> None:
    server = host_server.HostServer(version.Version(Path(), 0, {}, {}, "node0"), Path())
    server.ask("stop")
    server.ask("replace")
    assert server.requested == "stop"


@pytest.mark.parametrize("request_", ["end", "stop"])
def test_an_end_while_the_network_is_missing_is_no_failure(monkeypatch: pytest.MonkeyPatch, request_: str) -> None:
    server = host_server.HostServer(version.Version(Path(), 0, {}, {}, "node0"), Path())
    monkeypatch.setattr(server, "unusable", lambda: "port 8000 cannot be used")
    monkeypatch.setattr(server, "sleep", lambda _seconds: server.ask(request_))
    assert server.run(has_served=True) == ""
    assert server.run(has_served=False) == "port 8000 cannot be used"


def test_another_limit_of_a_request_is_another_front(tmp_path: Path) -> None:
    versions = []
    for name, seconds in (("a", 300.0), ("b", 600.0)):
        write(tmp_path / name / "m-serve", name, 8000, "", request=seconds)
        versions.append(version.Version.read(tmp_path / name / "m-serve"))
    server = host_server.HostServer(versions[0], tmp_path)
    assert [server.front(each).request for each in versions] == [300.0, 600.0]


def test_a_disk_that_is_full_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    server = host_server.HostServer(version.Version(Path(), 0, {}, {}, "node0"), Path())
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        server.say("instance 0 answers")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()


def test_an_instance_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    clock = SetClock()
    server = host_server.HostServer(version.Version(Path(), 0, {}, {}, "node0"), Path(), clock)
    monkeypatch.setattr(server, "start_instance", fail)
    instance = host_server.Instance(0, "socket")
    for moved, failures in ((0, 1), (host_server.PAUSE - 1, 1), (1, 2)):
        clock.now += moved
        server.look_at(instance)
        assert (instance.state, instance.failures) == (states.ENDED, failures)
    assert instance.error == "cannot be started ([Errno 12] Cannot allocate memory)"


@pytest.mark.slow
def test_what_keeps_it_from_serving(served: Served) -> None:
    served.write("1", "first")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", served.port + 1))
        taken.listen()
        assert served.begin().wait(60) == 0
    assert served.status()["state"] == "failed"
    pid = f"(process {os.getpid()}: "
    problem = f"port {served.port + 1} of 127.0.0.1 cannot be used on node0: Address already in use {pid}"
    assert problem in served.status()["reason"], served.status()["reason"]
    shutil.rmtree(served.path)
    served.port = free_ports()
    served.write("2", "first")
    (served.path / "broken").touch()
    assert served.begin().wait(60) == 0
    reason = r"instance [01] on node0 ended with exit code 1 before it served: the model is broken"
    assert re.fullmatch(reason, served.status()["reason"])
    assert "the model is broken" in (served.path / "log").read_text()


def test_directories_that_killed_servers_have_left_are_removed(tmp_path: Path) -> None:
    old = time.time() - 2 * host_server.YOUNG
    for name in ("amx-serve-left", "amx-serve-used", "amx-serve-new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "haproxy.cfg").touch()
        if name != "amx-serve-new":
            os.utime(tmp_path / name, (old, old))
    descriptor = os.open(tmp_path / "amx-serve-used", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    host_server.remove_left(tmp_path)
    os.close(descriptor)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["amx-serve-new", "amx-serve-used", "other"]


def test_pauses_grow() -> None:
    assert [host_server.pause(failures) for failures in (0, 1, 2, 3, 4, 9)] == [0, 5, 10, 20, 40, 60]


def test_the_service_of_systemd() -> None:
    words = ["/p/python", "-S", "/p x/50%", "serve", "/j/$a", "supervise"]
    text = unit.TEXT.format(job="m-serve", command=" ".join(map(unit._quoted, words)))
    assert 'ExecStart="/p/python" "-S" "/p x/50%%" "serve" "/j/$$a" "supervise"\n' in text
    assert unit.name(Path("/p/jobs/m-serve")) == "amx-cluster-m-serve.service"


@pytest.mark.slow
def test_haproxy_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, expected in (("2.0.29", False), ("2.2.9-2+deb11u6", True), ("3.0.11", True)):
        (tmp_path / "haproxy").write_text(f"#!/bin/sh\necho 'HAProxy version {number} 2024/01/01'\n")
        (tmp_path / "haproxy").chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        front.program.cache_clear()
        assert bool(front.program()) is expected
    monkeypatch.undo()
    front.program.cache_clear()
