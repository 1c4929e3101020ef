"""Two pods train together: the command pod, torchrun and the ranks as they run in the image, with the files
of the ConfigMap.

STAND-IN: processes of this machine are the pods, each confined to a core as the static CPU manager would; the image is
the virtual environment that site.yml has installed here, with the collection's programs beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from support import runtimes
from support.at_length import only_at_length
from support.checkout import ROOT
from support.kubernetes_jobs import derive, write

ENV = Path(os.environ.get("AMX_CLUSTER_ENV", ROOT / ".cluster/env"))
SMOKE = ROOT / "jobs/smoke.yml"
TRAINER = {
    "num_train_epochs": 1,
    "save_strategy": "steps",
    "save_steps": 4,
    "max_steps": 24,
    "warmup_steps": 1,
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Pods:
    """The pods of a job: a volume that they share, and a directory of its own for each."""

    def __init__(self, folder: Path, file: Path = SMOKE, since: str = "", **fields: Any) -> None:
        """since: when a person has started the job; empty for files that were applied."""
        self.folder = folder
        override = {"ranks_per_node": 1, "precision": "fp32", **fields}
        made = derive(file, override, workers=2, cpus=4, memory="8Gi")
        settings = replace(made.run.settings, since=since)
        self.derived = replace(made, run=replace(made.run, settings=settings))
        self.prefix, self.job, self.storage = folder / "prefix", folder / "job", folder / "storage"
        shutil.copytree(runtimes.installed(), self.prefix / "programs")
        (self.prefix / "env").symlink_to(ENV.resolve())
        write(self.job, self.derived, load(file, override))
        self.storage.mkdir()
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.running: dict[int, subprocess.Popen[str]] = {}
        start = self.derived.run.settings.start
        self.kept = self.storage / "jobs" / f"{self.derived.name}-{start}"

    def start(self, number: int, action: str = "train", storage: Path | None = None) -> subprocess.Popen[str]:
        """Start a pod as its container would, with what the training operator sets."""
        scratch = self.folder / str(number)
        scratch.mkdir(exist_ok=True)
        storage = storage or self.storage
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMP_", "LD_"))},
            "HOME": str(scratch),
            "AMX_CLUSTER_POD": f"worker-{number}",
            "AMX_CLUSTER_NODE": f"node{number}",
            "AMX_CLUSTER_INDEX": str(number),
            "AMX_CLUSTER_NETWORK": "127.0.0.0/8",
            "AMX_CLUSTER_PLACES": f"{self.prefix}:{self.job}:{storage}:{scratch}:{scratch}/outcome",
            "PET_NNODES": "2:2",
            "PET_RDZV_ENDPOINT": self.endpoint,
            "PET_NPROC_PER_NODE": "7",  # what is wrong here is not what is started
        }
        cpus = sorted(os.sched_getaffinity(0))
        with (self.folder / f"{number}.{action}.log").open("a") as log:
            process = subprocess.Popen(
                [str(self.prefix / "env/bin/python"), "-S", str(self.prefix / "programs"), "pod", action],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {cpus[number % len(cpus)]}),
            )
        if action == "train":
            self.running[number] = process
        return process

    def ask(self, *words: str) -> str:
        """Return what a command in the first pod prints."""
        command = [str(self.prefix / "env/bin/python"), "-S", str(self.prefix / "programs"), "pod", *words]
        places = f"{self.prefix}:{self.job}:{self.storage}:{self.folder}/0"
        environ = {**os.environ, "AMX_CLUSTER_PLACES": places, "AMX_CLUSTER_POD": "smoke-reader-1f"}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    def log(self, number: int, action: str = "train") -> str:
        path = self.folder / f"{number}.{action}.log"
        return path.read_text() if path.exists() else ""

    def logs(self) -> str:
        return f"{self.log(0)[-5000:]}\n--- worker-1 ---\n{self.log(1)[-5000:]}"

    def wait_until(self, what: Callable[[], object], seconds: float = 300) -> None:
        """Wait for something that happens while all pods run."""
        until = time.monotonic() + seconds
        while not what():
            assert all(pod.poll() is None for pod in self.running.values()), self.logs()
            assert time.monotonic() < until, self.logs()
            time.sleep(0.1)

    def stepped(self) -> bool:
        """Tell whether both ranks of zoo/steps.py have made steps."""
        return all((self.output / f"stepped-{rank}").exists() for rank in (0, 1))

    def codes(self) -> list[int]:
        """Wait for all pods, and return their exit codes."""
        return [self.running[number].wait(300) for number in sorted(self.running)]

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("status"))
        return found

    def outcome(self, number: int) -> tuple[str, str]:
        told = json.loads((self.folder / str(number) / "outcome").read_text())
        assert told["pod"] == f"worker-{number}"
        assert told["node"] == f"node{number}"
        return told["state"], told["reason"]

    @property
    def output(self) -> Path:
        return self.kept / "output"

    def rank_of(self, number: int) -> int:
        """Return the process of a pod's rank: the one that works in the pod's directory and is the script."""
        here = str(self.folder / str(number) / "jobs" / self.derived.name)
        script = self.derived.run.job.script.name.encode()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                if str((path / "cwd").readlink()) == here and words[1] == script:
                    return int(path.name)
            except (OSError, IndexError):
                continue
        raise AssertionError(f"pod {number} has no rank: {self.logs()}")

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[..., Pods]]:
    """Return a function that makes the pods of a job; they end with the test."""
    made: list[Pods] = []

    def make(**fields: Any) -> Pods:
        made.append(Pods(tmp_path, **fields))
        return made[-1]

    yield make
    for each in made:
        each.close()


def steps(folder: Path, number: int) -> Path:
    """Return the file of a job that makes so many steps."""
    path = folder / "steps.yml"
    script = str(ROOT / "tests/integration/zoo/steps.py")
    path.write_text(yaml.safe_dump({"name": "steps", "script": script, "kind": "torch", "args": {"steps": number}}))
    return path


def test_a_killed_rank_and_a_job_that_goes_on(pods: Callable[..., Pods]) -> None:
    """It counts once, whatever the ranks of the other pod say; and what would fail again is not started again."""
    made = pods(args=TRAINER, restarts=2, measure={"warmup_steps": 1}, expect={"eval_accuracy": 1.5})
    assert made.start(0, "prepare").wait(300) == 0, made.log(0, "prepare")
    for number in (0, 1):
        made.start(number)
    made.wait_until((made.output / "checkpoint-4/complete.json").exists)
    os.kill(made.rank_of(1), signal.SIGKILL)
    assert made.codes() == [1, 1], made.logs()
    told = made.status()
    status, results = told["status"], told["outcome"]
    expected = re.compile(r"eval_accuracy is [01]\S* and the job expects at least 1\.5")
    assert (status["state"], results["state"]) == ("failed", "failed"), made.logs()
    assert expected.fullmatch(status["reason"]), status
    first, second = status["attempts"]
    assert re.fullmatch(r"rank [01] on worker-1 was ended by signal 9 from outside", first["reason"]), status
    assert second["from"].startswith("checkpoint-"), status
    assert (results["restarts"], results["hosts"], results["ranks"]) == (1, 2, 2)
    assert results["resumed_step"] == int(second["from"].partition("-")[2])
    assert results["metrics"]["eval_accuracy"] < 1.5
    assert {rank["host"] for rank in results["world"]["ranks"]} == {"worker-0", "worker-1"}
    assert {rank["host"] for rank in results["measured"]["ranks"]} <= {"worker-0", "worker-1"}
    assert told["progress"]["step"] == 24
    plan = json.loads((made.kept / "plan.json").read_text())
    assert sorted(host["host"] for host in plan["hosts"]) == ["worker-0", "worker-1"]
    assert all(host["env"]["LD_PRELOAD"].endswith("/lib/libiomp5.so") for host in plan["hosts"])
    assert set(json.loads((made.kept / "utilization.json").read_text())["hosts"]) == {"worker-0", "worker-1"}
    for number in (0, 1):
        assert made.outcome(number) == ("failed", status["reason"])
        assert re.search(r"CPUs \d+ \(own\): 1 rank\(s\) of 1 thread\(s\)", made.log(number)), made.log(number)
    assert "failed (exitcode: -9)" in (made.kept / "log.1").read_text()
    assert made.ask("log") == (made.kept / "log").read_text() != ""
    (job,) = json.loads(made.ask("list"))["jobs"]
    assert (job["name"], job["start"], job["state"]) == ("smoke", made.derived.run.settings.start, "failed")
    packed = json.loads(made.ask("pack", job["start"]))
    content = Path(packed["path"]).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (packed["bytes"], packed["sha256"])
    with tarfile.open(packed["path"]) as tar:
        names = set(tar.getnames())
    assert {"./results.json", "./status.json", "./job.yml", "./output/all_results.json", "./log.1"} <= names
    assert not {name for name in names if name.startswith(("./data", "./pods", "./.beat"))}


@only_at_length(
    "torchrun is started again after a killed rank, too; what ends a round is in _kubernetes/pod/test_rounds.py"
)
def test_a_stalled_rank_and_a_job_that_is_stopped(pods: Callable[..., Pods], tmp_path: Path) -> None:
    """The ranks of a stalled round do not end by themselves: the first pod starts torchrun again, and others join."""
    made = pods(file=steps(tmp_path, 10_000), stall_seconds=16, restarts=1)
    for number in (0, 1):
        made.start(number)
    made.wait_until(made.stepped)
    os.kill(made.rank_of(1), signal.SIGSTOP)
    made.wait_until(lambda: made.status()["status"]["launch"] == 2)
    for rank in (0, 1):
        (made.output / f"stepped-{rank}").unlink()
    made.wait_until(made.stepped)
    assert (made.kept / ".beat").stat().st_mode & 0o777 == 0o600
    assert json.loads(made.ask("stop"))["state"] == "running"
    assert made.codes() == [1, 1], made.logs()
    assert made.outcome(0) == made.outcome(1) == ("stopped", "it was stopped on request")
    told = made.status()
    assert (told["status"]["state"], told["outcome"]["state"]) == ("stopped", "stopped")
    stalled, _stopped = told["status"]["attempts"]
    # Which of the two is noticed first depends on what else the machine does.
    noticed = r"rank [01] on worker-1 (has told nothing for \d+ s|is here, and the others wait for it)"
    assert re.search(noticed, stalled["reason"]), stalled
    assert not (made.kept / ".beat").exists()


@only_at_length("evicted pods are in the next test, lost ones and what they note in test_pod_supervisor.py")
def test_the_first_pod_is_lost_and_the_other_one_has_no_heartbeats(pods: Callable[..., Pods], tmp_path: Path) -> None:
    made = pods(file=steps(tmp_path, 150), restarts=1)
    # The other pod sees the same volume, with an endpoint at which nobody listens.
    cut_off = tmp_path / "cut_off/jobs" / made.kept.name
    cut_off.mkdir(parents=True)
    for name in ("output", "data", "pods"):
        (made.kept / name).mkdir(parents=True)
    for name in ("output", "data", "pods", "status.json"):
        (cut_off / name).symlink_to(made.kept / name)
    (cut_off / ".beat").write_text(f"127.0.0.1:{free_port()}:token")
    made.start(0)
    made.start(1, storage=cut_off.parents[1])
    made.wait_until(made.stepped)
    made.wait_until(lambda: made.status()["status"]["notes"])
    (note,) = made.status()["status"]["notes"]
    told = "this pod's heartbeats do not reach"
    assert note.startswith(f"worker-1: {told}")
    assert f"warning: {told}" in made.log(1)
    made.running[0].terminate()
    assert made.running[0].wait(120) == 143, made.logs()
    reason = "pod worker-0 on node node0 was deleted or evicted"
    assert made.outcome(0) == ("lost", reason)
    assert made.status()["status"]["state"] == "lost"
    assert made.running[1].poll() is None, "the other pod does not wait"
    made.start(0)
    assert made.codes() == [0, 0], made.logs()
    status = made.status()["status"]
    assert (status["state"], [attempt["reason"] for attempt in status["attempts"]]) == ("succeeded", [reason, ""])
    assert "worker-0 has taken the place of pod worker-0 on node node0" in status["notes"]
    assert made.outcome(0) == made.outcome(1) == ("succeeded", "")


EVICTED = """
import os, signal, subprocess, time
from pathlib import Path
import torch
from torch import distributed

distributed.init_process_group("gloo")
distributed.all_reduce(torch.ones(1))
if os.environ["RANK"] == "0":
    Path("output/model").write_text(subprocess.run(["./tool.sh"], capture_output=True, check=True, text=True).stdout)
torchrun = os.getppid()
supervisor = int(Path(f"/proc/{torchrun}/stat").read_text().rpartition(")")[2].split()[1])
distributed.destroy_process_group()
if os.environ["LOCAL_RANK"] == "0" and os.fork() == 0:
    os.setsid()
    for number in range(3):
        os.close(number)
    while Path(f"/proc/{torchrun}").exists() and " Z " not in Path(f"/proc/{torchrun}/stat").read_text():
        time.sleep(0.001)
    os.kill(supervisor, signal.SIGTERM)
    os._exit(0)
"""


def test_pods_are_evicted_when_all_ranks_have_ended_and_are_replaced(pods: Callable[..., Pods], tmp_path: Path) -> None:
    """The outcome and all files stay, whichever pod Kubernetes starts again, and nothing is trained once more.

    The job is a project with a program, which a rank executes.
    """
    project = tmp_path / "mine"
    project.mkdir()
    (project / "evicted.py").write_text(EVICTED)
    (project / "tool.sh").write_text("#!/bin/sh\necho trained\n")
    (project / "tool.sh").chmod(0o755)
    file = tmp_path / "evicted.yml"
    file.write_text(yaml.safe_dump({"name": "evicted", "project": "mine", "script": "evicted.py", "kind": "torch"}))
    made = pods(file=file, since="2026-11-22T22:00:00+00:00")
    for number in (0, 1):
        made.start(number)
    assert made.codes()[0] == 0, made.logs()
    assert made.outcome(0) == ("succeeded", "")
    kept = {path: path.read_bytes() for path in made.kept.rglob("*") if path.is_file()}
    assert {"model", "results.json", "status.json"} <= {path.name for path in kept}
    for number in (1, 0):
        shutil.rmtree(tmp_path / str(number))  # another pod has a directory of its own
        assert made.start(number).wait(60) == 0, made.logs()
        assert made.outcome(number) == ("succeeded", "")
        assert {path: path.read_bytes() for path in made.kept.rglob("*") if path.is_file()} == kept
