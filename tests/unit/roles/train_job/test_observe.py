"""A real Python with a made-up torch: what matters is who calls what, and the files that come of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

OBSERVE = Path(__file__).resolve().parents[4] / "roles/train_job/files/observe"

# As much of torch and transformers as the observer and the scripts below touch. A group forms by a variable here.
PACKAGES = {
    "torch/__init__.py": """
        def get_num_threads():
            return 3
        """,
    "torch/distributed/__init__.py": "from .distributed_c10d import *",
    "torch/distributed/distributed_c10d.py": """
        import os

        __all__ = ["init_process_group", "is_initialized"]
        formed = False

        def init_process_group(backend):
            global formed
            assert not formed, "twice"
            formed = True
            return "the group"

        def is_initialized():
            return formed

        def get_world_size():
            return int(os.environ["WORLD_SIZE"])

        def get_rank():
            return int(os.environ["RANK"])

        def get_backend():
            return "gloo"

        def all_gather_object(places, mine):
            places[:] = [{**mine, "rank": rank} for rank in range(len(places))]
        """,
    "torch/optim/__init__.py": "from .optimizer import Optimizer",
    "torch/optim/optimizer.py": """
        hooks = []

        class Handle:
            def remove(self):
                hooks.clear()

        def register_optimizer_step_pre_hook(hook):
            hooks.append(hook)
            return Handle()

        class Optimizer:
            def step(self):
                for hook in list(hooks):
                    hook(self, (), {})
                print("step", flush=True)
        """,
    "transformers/__init__.py": "class TrainerCallback: pass",
    "transformers/trainer.py": "DEFAULT_CALLBACKS = []",
}


class Rank:
    """One rank of a job in `folder` that is observed."""

    def __init__(self, folder: Path) -> None:
        self.job = folder / "job"
        self.job.mkdir()
        self.packages = folder / "packages"
        for name, code in PACKAGES.items():
            path = self.packages / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(code))

    def run(self, script: str, rank: int = 0, size: int = 2, **environ: str) -> subprocess.CompletedProcess[str]:
        (self.job / "script.py").write_text(textwrap.dedent(script))
        told = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{OBSERVE}:{self.packages}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "AMX_CLUSTER_JOB": str(self.job),
            "AMX_CLUSTER_HOST": "node1",
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            **environ,
        }
        command = [sys.executable, "script.py"]
        return subprocess.run(command, cwd=self.job, env=told, capture_output=True, text=True, check=False)

    def read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.job / name).read_text())
        return content


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path)


TRAINS = """
    from torch import distributed, optim
    print(distributed.init_process_group("gloo"))
    optim.Optimizer().step()
    optim.Optimizer().step()
"""


def test_rank_0_writes_who_is_in_the_group(rank: Rank) -> None:
    ran = rank.run(TRAINS)
    assert (ran.stdout, ran.stderr) == ("the group\nstep\nstep\n", "")
    world = rank.read("world.json")
    assert (world["size"], world["backend"]) == (2, "gloo")
    assert [entry["rank"] for entry in world["ranks"]] == [0, 1]
    first = world["ranks"][0]
    assert (first["host"], first["threads"], first["cpus"]) == ("node1", 3, sorted(os.sched_getaffinity(0)))
    assert first["libraries"] == []
    assert rank.read("ranks/entered.json") == {"pid": first["pid"]}


def test_the_other_ranks_write_nothing(rank: Rank) -> None:
    assert rank.run(TRAINS, rank=1).returncode == 0
    assert [path.name for path in rank.job.iterdir()] == ["script.py"]


def test_entering_is_told_before_the_group_is_there(rank: Rank) -> None:
    (rank.packages / "torch/distributed/distributed_c10d.py").write_text(
        textwrap.dedent(PACKAGES["torch/distributed/distributed_c10d.py"]).replace(
            "formed = True\n", 'raise ConnectionError("nobody came")\n'
        )
    )
    assert rank.run(TRAINS).returncode == 1
    assert (rank.job / "ranks/entered.json").exists()
    assert not (rank.job / "world.json").exists()


def test_a_rank_that_would_train_alone_is_ended_at_its_first_step(rank: Rank) -> None:
    ran = rank.run("from torch import optim\noptim.Optimizer().step()", rank=1)
    assert (ran.returncode, ran.stdout) == (1, "")
    lines = ran.stderr.splitlines()
    assert (lines[0], lines[-1]) == ("--- rank 1 on node1 failed ---", "--- end of rank 1 ---")
    assert lines[-4:-1] == [
        "This rank would train a model of its own: 2 ranks were started and the script has formed no group with them.",
        "With transformers and accelerate 1.13 or newer a job on CPUs becomes distributed only with --use_cpu and",
        "--ddp_backend; another script must call torch.distributed.init_process_group before its first step.",
    ]


def test_one_rank_needs_no_group(rank: Rank) -> None:
    assert rank.run("from torch import optim\noptim.Optimizer().step()", size=1).stdout == "step\n"


def test_a_torch_without_hooks_trains(rank: Rank) -> None:
    path = rank.packages / "torch/optim/optimizer.py"
    path.write_text(path.read_text().replace("register_optimizer_step_pre_hook", "other"))
    assert rank.run("from torch import optim\noptim.Optimizer().step()").stdout == "step\n"


TRAINER = """
    from types import SimpleNamespace
    from transformers import trainer

    args = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=2, world_size=2)
    state = SimpleNamespace(global_step=0, max_steps=10, epoch=0.0)
    (callback,) = [kind() for kind in trainer.DEFAULT_CALLBACKS]
    callback.on_train_begin(args, state, None)
    state.global_step = 4
    callback.on_step_end(args, state, None)  # within a second of the last report
    state.global_step, state.epoch = 5, 0.5
    callback.on_log(args, state, None, logs={"loss": 0.25, "note": "text"})
"""


def test_progress(rank: Rank) -> None:
    ran = rank.run(TRAINER)
    assert ran.stderr == ""
    progress = rank.read("progress.json")
    assert progress.pop("began") <= progress.pop("time")
    assert progress == {"step": 5, "max_steps": 10, "epoch": 0.5, "samples_per_step": 32, "metrics": {"loss": 0.25}}


def test_only_rank_0_tells_its_progress(rank: Rank) -> None:
    assert rank.run(TRAINER, rank=1).returncode == 0
    assert not (rank.job / "progress.json").exists()


def test_a_traceback_is_printed_in_one_piece(rank: Rank) -> None:
    ran = rank.run("print('before')\nraise KeyError('x')", rank=1)
    assert ran.stderr == (
        "--- rank 1 on node1 failed ---\n"
        "Traceback (most recent call last):\n"
        f'  File "{rank.job}/script.py", line 2, in <module>\n'
        "    raise KeyError('x')\n"
        "KeyError: 'x'\n"
        "--- end of rank 1 ---\n"
    )
    assert rank.run("raise SystemExit('enough')").stderr == "enough\n"


def test_the_next_sitecustomize_still_runs(rank: Rank) -> None:
    (rank.packages / "sitecustomize.py").write_text("print('the other one')")
    assert rank.run("print('script')").stdout == "the other one\nscript\n"


def test_outside_a_job_nothing_is_watched(rank: Rank) -> None:
    ran = rank.run("raise KeyError('x')", AMX_CLUSTER_JOB="")
    assert ran.stderr.startswith("Traceback")
    assert rank.run(TRAINS, AMX_CLUSTER_JOB="").returncode == 0
    assert [path.name for path in rank.job.iterdir()] == ["script.py"]
