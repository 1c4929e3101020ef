"""A real Python with a made-up torch: what matters is who calls what, and the files that come of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints

OBSERVE = Path(__file__).resolve().parents[4] / "roles/job/files/observe"

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

        def register_optimizer_step_pre_hook(hook):
            hooks.append(hook)

        class Optimizer:
            def step(self):
                for hook in hooks:
                    hook(self, (), {})
                print("step", flush=True)
        """,
    "the_bindings.py": "from torch import distributed; print('bindings', distributed.is_initialized())",
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


def test_the_bindings_of_oneccl_are_there_before_the_group(rank: Rank) -> None:
    ran = rank.run(TRAINS, AMX_CLUSTER_BINDINGS="the_bindings")
    assert (ran.stdout, ran.stderr) == ("bindings False\nthe group\nstep\nstep\n", "")
    ran = rank.run(TRAINS, AMX_CLUSTER_BINDINGS="no_bindings")
    assert ran.returncode == 1
    assert "ModuleNotFoundError: No module named 'no_bindings'" in ran.stderr


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
    assert progress.pop("metrics") == {"loss": 0.25}
    assert progress == {"step": 5, "first_step": 0, "max_steps": 10, "epoch": 0.5, "samples_per_step": 32}


def test_progress_of_a_run_that_goes_on_from_a_checkpoint(rank: Rank) -> None:
    ran = rank.run(TRAINER.replace("global_step=0", "global_step=3"))
    assert ran.stderr == ""
    assert rank.read("progress.json")["first_step"] == 3


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


SAVES = """
    import os
    from types import SimpleNamespace
    from transformers import trainer

    (callback,) = [kind() for kind in trainer.DEFAULT_CALLBACKS]
    args = SimpleNamespace(output_dir="output")
    for step, text in ((5, "weights"), (5, "weights"), (10, "more weights")):
        folder = f"output/checkpoint-{step}"
        os.makedirs(f"{folder}/deep", exist_ok=True)
        for name in ("model", "deep/state"):
            with open(f"{folder}/{name}", "w") as stream:
                stream.write(text)
        callback.on_save(args, SimpleNamespace(global_step=step), None)
    callback.on_save(args, SimpleNamespace(global_step=11), None)  # Trainer saved nothing
"""


def test_a_checkpoint_is_marked_when_all_of_it_is_there(rank: Rank) -> None:
    ran = rank.run(SAVES)
    assert ran.stderr == ""
    assert rank.read("output/checkpoint-10/complete.json") == {"model": 12, "deep/state": 12}
    # Written over by a later run: the first mark is not counted as one of its files.
    assert rank.read("output/checkpoint-5/complete.json") == {"model": 7, "deep/state": 7}
    assert checkpoints.last_whole(rank.job / "output") == rank.job / "output/checkpoint-10"
    assert sorted(path.name for path in (rank.job / "output").iterdir()) == ["checkpoint-10", "checkpoint-5"]


def test_only_rank_0_marks_checkpoints(rank: Rank) -> None:
    assert rank.run(SAVES, rank=1).returncode == 0
    assert not list(rank.job.glob("output/*/complete.json"))


class Listener:
    """A supervisor's ear: takes in what ranks tell."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.told: list[dict[str, Any]] = []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            try:
                connection, _address = self.socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                said = stream.read()
                if said:  # else its sender ended as it began
                    self.told.append(json.loads(said))

    @property
    def beat(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}:secret"


# However slow the machine is: until a first message was sent, and until another one was.
HEARD = """
    import sitecustomize, time
    while not sitecustomize.BEAT.heard:
        time.sleep(0.02)
"""
HEARD_AGAIN = """
    heard = sitecustomize.BEAT.heard
    while sitecustomize.BEAT.heard == heard:
        time.sleep(0.02)
"""


def test_a_rank_tells_the_supervisor_how_it_is(rank: Rank) -> None:
    listener, began = Listener(), time.monotonic()
    with listener.socket:
        ran = rank.run(textwrap.dedent(HEARD + TRAINS + HEARD_AGAIN), AMX_CLUSTER_BEAT=listener.beat)
    assert ran.stderr == ""
    assert len(listener.told) >= 3  # at once, after two seconds, and at its end
    first, *_others, last = listener.told
    assert (first["token"], first["rank"], first["host"]) == ("secret", 0, "node1")
    assert not first["stepped"]
    assert last["stepped"]
    assert 0 < last["idle"] < time.monotonic() - began
    assert last["cpu_seconds"] >= first["cpu_seconds"] > 0
    assert last["time"] > first["time"]
    assert 2**20 < last["rss_bytes"] < 2**33
    assert last["network_bytes"] >= 0
    assert last["oom_kills"] >= -1
    assert ("stack" in last) == (last["idle"] > 10)  # not if it has paused for a moment only
    files: dict[str, Any] = {}
    for told in listener.told:
        files.update(told["files"])
    assert files == {"ranks/entered.json": rank.read("ranks/entered.json"), "world.json": rank.read("world.json")}


def test_a_rank_that_stands_still_tells_where(rank: Rank) -> None:
    listener = Listener()
    later = """
    import sitecustomize, time
    sitecustomize.BEAT.active -= 100  # so long ago was its last step

    def reads_data():
        time.sleep(2.5)

    reads_data()
    """
    with listener.socket:
        ran = rank.run(textwrap.dedent(TRAINS + later), AMX_CLUSTER_BEAT=listener.beat)
    assert ran.stderr == ""
    stacks = [told["stack"] for told in listener.told if "stack" in told]
    assert stacks
    assert "in reads_data" in stacks[0]


def test_wrong_arguments_are_told_in_one_piece_without_the_usage(rank: Rank) -> None:
    script = """
    import argparse
    parser = argparse.ArgumentParser(prog="run.py", allow_abbrev=False)
    parser.add_argument("--learning_rate", type=float)
    parser.parse_args(["--learnin_rate", "1", "--other"])
    """
    ran = rank.run(script)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "--- rank 0 on node1 failed ---\n"
        "run.py: error: unrecognized arguments: --learnin_rate 1 --other (did you mean --learning_rate?)\n"
        "--- end of rank 0 ---\n"
    )
    ran = rank.run(script.replace('"--learnin_rate", "1", "--other"', '"--learning_rate", "high"'))
    assert "run.py: error: argument --learning_rate: invalid float value: 'high'\n" in ran.stderr


@pytest.mark.parametrize(
    ("work", "idle"),
    [
        ("time.sleep(7)", True),  # it waits for something that does not come
        ("while time.monotonic() < until: pass", False),
        ("import subprocess; subprocess.run([sys.executable, '-c', 'while True: pass'], timeout=7)", False),
    ],
)
def test_before_its_first_step_a_rank_that_works_gets_on(rank: Rank, work: str, idle: bool) -> None:
    listener = Listener()
    begins = "import sys, time\nuntil = time.monotonic() + 7\ntry:\n    "
    with listener.socket:
        rank.run(begins + work + "\nexcept Exception:\n    pass", AMX_CLUSTER_BEAT=listener.beat)
    last = listener.told[-2]  # the last but one was told while it was at it
    assert not last["stepped"]
    assert (last["idle"] > 3.5) == idle


def test_a_supervisor_that_is_gone_does_not_hold_up_the_script(rank: Rank) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    ran = rank.run(TRAINS, AMX_CLUSTER_BEAT=f"127.0.0.1:{port}:secret")
    assert (ran.stdout, ran.stderr) == ("the group\nstep\nstep\n", "")


def test_a_rank_that_would_train_alone_has_made_no_step(rank: Rank) -> None:
    """Also not for the supervisor, which would start it again otherwise. An evaluation before does not let it pass."""
    listener = Listener()
    script = "import sitecustomize\nfrom torch import optim\noptim.Optimizer().step()"
    with listener.socket:
        ran = rank.run(script, AMX_CLUSTER_BEAT=listener.beat)
        assert ran.returncode == 1
        assert not any(told["stepped"] for told in listener.told)
    assert rank.run(script.replace("from", "sitecustomize.BEAT.step()\nfrom", 1)).returncode == 1
