"""Two pods train together: pod.py, torchrun and the ranks as they run in the image, with the files of the ConfigMap.

STAND-IN: processes of this machine are the pods, each confined to a core as the static CPU manager would; the image is
the virtual environment that site.yml has installed here, with the collection's programs beside it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action.image_context import programs
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import manifest, pod
from support.checkout import ROOT
from support.kubernetes_jobs import derive

ENV = Path(os.environ.get("AMX_CLUSTER_ENV", ROOT / ".cluster/env"))
JOB = ROOT / "jobs/smoke.yml"
STEPS = {"num_train_epochs": 1, "save_strategy": "steps", "save_steps": 5}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Pods:
    """The pods of a job: a volume that they share, and a directory of its own for each."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.folder = folder
        override = {"ranks_per_node": 1, "args": STEPS, "precision": "fp32", **fields}
        self.derived = derive(JOB, override, workers=2, cpus=4, memory="8Gi")
        self.prefix, self.job, self.storage = folder / "prefix", folder / "job", folder / "storage"
        for name, path in programs().items():
            target = self.prefix / "programs" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        (self.prefix / "env").symlink_to(ENV.resolve())
        self.job.mkdir()
        for name, content in manifest.job_files(self.derived, load(JOB, override), {}).items():
            (self.job / name).write_bytes(content)
        self.storage.mkdir()
        self.endpoint = f"127.0.0.1:{free_port()}"

    def start(self, number: int, action: str) -> subprocess.Popen[str]:
        """Start a pod as its container would, with what the training operator sets."""
        scratch = self.folder / str(number)
        scratch.mkdir(exist_ok=True)
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMP_", "LD_"))},
            "HOME": str(scratch),
            "AMX_CLUSTER_POD": f"smoke-worker-{number}",
            "AMX_CLUSTER_INDEX": str(number),
            "AMX_CLUSTER_NETWORK": "127.0.0.0/8",
            "AMX_CLUSTER_PLACES": f"{self.prefix}:{self.job}:{self.storage}:{scratch}",
            "PET_NNODES": "2:2",
            "PET_RDZV_ENDPOINT": self.endpoint,
            "PET_NPROC_PER_NODE": "7",  # what is wrong here is not what is started
        }
        cpus = sorted(os.sched_getaffinity(0))
        with (self.folder / f"{number}.{action}.log").open("w") as log:
            return subprocess.Popen(
                [str(self.prefix / "env/bin/python"), "-S", str(self.prefix / "programs/pod.py"), action],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {cpus[number % len(cpus)]}),
            )

    def log(self, number: int, action: str = "train") -> str:
        return (self.folder / f"{number}.{action}.log").read_text()

    @property
    def output(self) -> Path:
        start = self.derived.run.settings.start
        return self.storage / "jobs" / f"{self.derived.name}-{start}" / "output"

    def rank_of(self, number: int) -> int:
        """Return the process of a pod's rank: the one that works in the pod's directory and is the script."""
        here = str(self.folder / str(number) / "jobs" / self.derived.name)
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if str((path / "cwd").readlink()) == here and b"train_text.py" in (path / "cmdline").read_bytes():
                    return int(path.name)
            except OSError:
                continue
        raise AssertionError(f"pod {number} has no rank: {self.log(number)}")


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    made = Pods(tmp_path, restarts=1)
    assert made.start(0, "prepare").wait(300) == 0, made.log(0, "prepare")
    return made


def ended(pods: Pods, running: list[subprocess.Popen[str]]) -> None:
    for number, process in enumerate(running):
        assert process.wait(600) == 0, pods.log(number)[-6000:]
    assert json.loads((pods.output / "all_results.json").read_text())["eval_accuracy"] > 0.85


def test_two_pods_train_together(pods: Pods) -> None:
    ended(pods, [pods.start(number, "train") for number in (0, 1)])
    both = pods.log(0) + pods.log(1)
    assert "ranks=2 " in both, "each pod has trained on its own"
    assert len(re.findall(r"CPUs \d+ \(own\): 1 rank\(s\) of 1 thread\(s\)", both)) == 2, both
    for number in (0, 1):
        here = pods.folder / str(number) / "jobs" / "smoke"
        plan = json.loads((here / "plan.json").read_text())
        assert plan["world_size"] == 2
        assert plan["hosts"][0]["env"]["LD_PRELOAD"].endswith("/lib/libiomp5.so")


def test_a_killed_rank_and_a_job_that_goes_on(pods: Pods) -> None:
    running = [pods.start(number, "train") for number in (0, 1)]
    until = time.monotonic() + 300
    while not (pods.output / "checkpoint-10/complete.json").exists():
        assert time.monotonic() < until, pods.log(0) + pods.log(1)
        time.sleep(0.1)
    os.kill(pods.rank_of(1), signal.SIGKILL)
    # One restart is all that the job has.
    ended(pods, running)
    words = [(pods.folder / str(number) / "jobs/smoke/plan.json").read_text() for number in (0, 1)]
    assert all(json.loads(text)["world_size"] == 2 for text in words)
    state = json.loads((pods.output / "checkpoint-38/trainer_state.json").read_text())
    assert state["global_step"] == 38
    starts = [entry["epoch"] for entry in state["log_history"] if "loss" in entry]
    assert starts == sorted(starts), "the job has begun from the beginning"
    assert pods.log(0).count("eval_before_loss") + pods.log(1).count("eval_before_loss") >= 2
    assert pod.PREPARED in {path.name for path in pods.output.parent.iterdir()}
