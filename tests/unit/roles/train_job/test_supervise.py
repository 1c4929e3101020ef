from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SUPERVISE = Path(__file__).resolve().parents[4] / "roles/train_job/files/supervise.py"
JOB: dict[str, Any] = {"name": "demo", "expect": {}, "world_timeout": 60}
PLAN: dict[str, Any] = {
    "world_size": 2,
    "master_addr": "10.0.0.1",
    "precision": "bf16",
    "backend": "gloo",
    "stack": "native",
    "hosts": [
        {"host": "node0", "threads_per_rank": 4, "ranks": [{"rank": 0}]},
        {"host": "node1", "threads_per_rank": 4, "ranks": [{"rank": 1}]},
    ],
}
WORLD = {"size": 2, "backend": "gloo", "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node1"}]}
# What a script that trains leaves behind.
TRAIN = """
echo trained
mkdir output
echo '{"eval_accuracy": 0.8, "train_loss": NaN}' > output/all_results.json
"""


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait for a condition, and return what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return found


def read(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text())
    return content


def start(folder: Path, launch: str, job: dict[str, Any], world: Any) -> dict[str, Any]:
    """Start a job as the role does. Returns the status that is there when the command has come back."""
    (folder / "job.json").write_text(json.dumps({**JOB, **job}))
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "launch.sh").write_text(launch)
    if world:
        (folder / "world.json").write_text(json.dumps(world))
    subprocess.run([sys.executable, "-S", str(SUPERVISE), str(folder)], check=True, timeout=20)
    return read(folder, "status.json")


def ended(folder: Path) -> dict[str, Any]:
    """Wait for the job's end. Returns its status."""
    return until(lambda: read(folder, "status.json")["state"] != "running") and read(folder, "status.json")


def is_gone(pid: int) -> bool:
    """Whether a process is there no more; one that only waits to be collected is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_success(tmp_path: Path) -> None:
    first = start(tmp_path, "sleep 0.3\n" + TRAIN, {"expect": {"eval_accuracy": 0.7}}, WORLD)
    assert (first["state"], first["job"], first["hosts"], first["ranks"]) == ("running", "demo", 2, 2)
    status = ended(tmp_path)
    assert (status["state"], status["reason"], status["returncode"]) == ("succeeded", "", 0)
    assert 0.3 <= status["seconds"] < 20
    results = read(tmp_path, "results.json")
    assert str(results["metrics"].pop("train_loss")) == "nan"
    assert results == {
        "job": "demo",
        "state": "succeeded",
        "reason": "",
        "started": status["started"],
        "ended": status["ended"],
        "seconds": status["seconds"],
        "hosts": 2,
        "ranks": 2,
        "threads_per_rank": [4, 4],
        "precision": "bf16",
        "backend": "gloo",
        "stack": "native",
        "metrics": {"eval_accuracy": 0.8},
        "world": WORLD,
        "output": f"{tmp_path}/output",
    }
    assert (tmp_path / "log").read_text() == "trained\n"


ALONE = (
    "the 2 ranks formed no group: the script never called torch.distributed.init_process_group, so each rank would "
    "have trained a model of its own. With accelerate 1.13 or newer --use_cpu must be among its arguments"
)
SWAPPED = {"ranks": [{"rank": 0, "host": "node1"}, {"rank": 1, "host": "node0"}]}


@pytest.mark.parametrize(
    ("launch", "job", "world", "reason"),
    [
        ("exit 3", {}, WORLD, "mpirun ended with exit code 3; the log tells why"),
        ("kill -9 $$", {}, WORLD, "mpirun ended with exit code -9; the log tells why"),
        (TRAIN, {}, None, ALONE),
        (
            TRAIN,
            {},
            SWAPPED,
            "the ranks formed another group than planned: {0: 'node1', 1: 'node0'} instead of {0: 'node0', 1: 'node1'}",
        ),
        (
            TRAIN,
            {"expect": {"eval_accuracy": 0.85}},
            WORLD,
            "eval_accuracy is 0.8 and the job expects at least 0.85",
        ),
        (TRAIN, {"expect": {"train_loss": 0}}, WORLD, "train_loss is nan and the job expects at least 0"),
        (
            TRAIN,
            {"expect": {"eval_f1": 0.5}},
            WORLD,
            "the script reported no eval_f1, which the job expects to be at least 0.5",
        ),
        (
            "mkdir output; echo '{\"eval_f1\":' > output/all_results.json",
            {"expect": {"eval_f1": 0.5}},
            WORLD,
            "the script reported no eval_f1, which the job expects to be at least 0.5",
        ),
    ],
)
def test_failure(tmp_path: Path, launch: str, job: dict[str, Any], world: Any, reason: str) -> None:
    start(tmp_path, launch, job, world)
    status = ended(tmp_path)
    assert (status["state"], status["reason"]) == ("failed", reason)
    assert read(tmp_path, "results.json")["reason"] == reason


# One child ends when asked, one does not.
CHILDREN = """
trap '' HUP
sleep 1000 & echo $! > pids
(trap '' TERM; exec sleep 1000) & echo $! >> pids
echo ready >> pids
wait
"""


def children(folder: Path) -> list[int]:
    """The processes that launch.sh started, when it has started all."""
    until(lambda: (folder / "pids").exists() and "ready" in (folder / "pids").read_text())
    return [int(line) for line in (folder / "pids").read_text().split()[:2]]


def test_stop(tmp_path: Path) -> None:
    status = start(tmp_path, CHILDREN, {}, WORLD)
    started = children(tmp_path)
    assert os.getsid(status["pid"]) == status["pid"]  # it outlives the connection that started it
    os.kill(status["pid"], signal.SIGHUP)
    os.kill(status["pid"], signal.SIGTERM)
    status = ended(tmp_path)
    assert (status["state"], status["reason"]) == ("stopped", "it was stopped on request")
    assert until(lambda: all(is_gone(pid) for pid in started))
    assert read(tmp_path, "results.json")["state"] == "stopped"


def test_ranks_that_wait_for_the_others_too_long(tmp_path: Path) -> None:
    launch = "mkdir ranks; echo '{}' > ranks/entered.json\n" + CHILDREN
    start(tmp_path, launch, {"world_timeout": 1}, world=None)
    started = children(tmp_path)
    status = ended(tmp_path)
    assert status["state"] == "failed"
    assert status["reason"] == (
        "rank 0 waited 1 s for the other 1 rank(s) to join its group at 10.0.0.1: "
        "check that hosts reach each other on the cluster network, on any port"
    )
    assert until(lambda: all(is_gone(pid) for pid in started))
