"""A real rank.py and Python with a made-up torch: what matters is who calls what, and what comes of it.

tests/integration/test_healthy_scripts.py has the real torch.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amx_cluster.observer import usage
from amx_cluster.observer.activity import Activity
from amx_cluster.observer.rank import Rank as Observed
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, faults, heartbeats
from support import runtimes
from support.patience import until

pytestmark = pytest.mark.slow


OBSERVED = Observed(
    {"pid": 1, "rank": 0, "size": 1, "together": [0], "host": "node1", "interface": "lo", "job": "", "watch": {}}, ""
)
# As much of torch and transformers as the observer and the scripts below touch. A group forms by a variable here.
PACKAGES = {
    "torch/__init__.py": """
        from types import SimpleNamespace

        __version__ = "2.13.0"
        int64 = uint8 = "kinds of numbers"
        strided = "a layout"

        class Tensor(list):
            layout, is_meta = strided, False
            tolist = detach = double = lambda self: list(self)

        def zeros(size, dtype):
            return Tensor([0] * size)

        def tensor(numbers, dtype):
            return Tensor(numbers)

        def get_num_threads():
            return 3
        """,
    "torch/distributed/__init__.py": "from .distributed_c10d import *",
    "torch/distributed/distributed_c10d.py": """
        import os

        __all__ = ["destroy_process_group", "init_process_group", "is_initialized"]
        formed = False

        def init_process_group(backend):
            global formed
            assert not formed, "twice"
            formed = True
            return "the group"

        def destroy_process_group():
            global formed
            formed = False

        def is_initialized():
            return formed

        def get_world_size():
            return int(os.environ["WORLD_SIZE"])

        def get_rank():
            return int(os.environ["RANK"])

        def get_backend():
            return "gloo"

        def all_gather(parts, mine):  # each rank sends the same but for its number
            for rank, part in enumerate(parts):
                part[:] = list(bytes(mine).replace(b'"rank": 0', b'"rank": %d' % rank)) if len(mine) > 1 else mine
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
    "accelerate/__init__.py": "",
    "accelerate/optimizer.py": """
        class AcceleratedOptimizer:
            def step(self, closure=None):
                pass
        """,
    "transformers/__init__.py": "class TrainerCallback: pass",
    "transformers/training_args.py": """
        class TrainingArguments:
            use_cpu, bf16 = False, True

            def __post_init__(self):
                assert self.use_cpu or not self.bf16, "no GPU"
        """,
    "transformers/trainer.py": """
        DEFAULT_CALLBACKS = []

        class Trainer:
            def training_step(self, model, inputs, num_items_in_batch=None):
                return (model, sorted(inputs), num_items_in_batch)
        """,
}


class Rank:
    """One rank of a job in `folder`, which rank.py starts on a host of two ranks."""

    def __init__(self, folder: Path) -> None:
        self.job = folder / "job"
        self.job.mkdir()
        (self.job / "host").write_text("node1\n")
        self.packages = folder / "packages"
        for name, code in PACKAGES.items():
            path = self.packages / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(code))

    def start(
        self, script: str, rank: int = 0, size: int = 2, plan: dict[str, Any] | None = None, **environ: str
    ) -> subprocess.Popen[str]:
        (self.job / "script.py").write_text(textwrap.dedent(script))
        host = {"host": "node1", "interface": "lo", "env": {}, "ranks": [{"rank": number} for number in range(size)]}
        launcher = {"rank_variables": ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"], "pins": True}
        made = {"launcher": launcher, "world_size": size, "hosts": [host], **(plan or {})}
        (self.job / "plan.json").write_text(json.dumps(made))
        told = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(size),
            "MPI_LOCALRANKID": str(rank),
            **environ,
        }
        return subprocess.Popen(
            [sys.executable, "-S", str(runtimes.installed()), "rank", "script.py"],
            cwd=self.job,
            env=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, **told: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(script, **told)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.job / name).read_text())
        return content

    def left(self) -> set[str]:
        """Return what there is in the job directory besides what was put there."""
        return {path.name for path in self.job.iterdir()} - {"host", "plan.json", "script.py", "ranks"}


class Supervisor:
    """Receives what ranks send."""

    def __init__(self) -> None:
        self.receiver = heartbeats.Receiver("127.0.0.1")
        self.messages: list[dict[str, Any]] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self) -> None:
        while not self.done.is_set():
            self.messages += self.receiver.receive(0.1)
        self.messages += self.receiver.receive(0)

    def told(self) -> list[dict[str, Any]]:
        """Stop listening, and return the heartbeats in their order."""
        return [message for message in self.all() if "exit" not in message]

    def all(self) -> list[dict[str, Any]]:
        """Stop listening, and return the messages in their order, also those of rank.py."""
        self.done.set()
        self.thread.join()
        return self.messages

    @property
    def endpoint(self) -> str:
        return self.receiver.endpoint


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.told()
    made.receiver.close()


TRAINS = """
    from torch import distributed, optim
    print(distributed.init_process_group("gloo"))
    optim.Optimizer().step()
    optim.Optimizer().step()
"""
TRAINED = "the group\nstep\nstep\n"


def test_rank_0_writes_who_is_in_the_group(rank: Rank) -> None:
    ran = rank.run(TRAINS)
    assert (ran.stdout, ran.stderr) == (TRAINED, "")
    world = rank.read("world.json")
    assert (world["size"], world["backend"]) == (2, "gloo")
    assert [entry["rank"] for entry in world["ranks"]] == [0, 1]
    first = world["ranks"][0]
    assert (first["host"], first["threads"], first["cpus"]) == ("node1", 3, sorted(os.sched_getaffinity(0)))
    assert first["libraries"] == []
    assert rank.read("ranks/entered.json") == {"pid": first["pid"]}


def test_ranks_send_each_other_no_pickles(rank: Rank) -> None:
    """A peer, or who can connect to the group's port, could have code executed by one."""
    assert rank.run("import sys\nsys.modules['pickle'] = None\n" + textwrap.dedent(TRAINS)).stdout == TRAINED
    assert rank.read("world.json")["size"] == 2


def test_the_bindings_of_oneccl_are_there_before_the_group(rank: Rank) -> None:
    ran = rank.run(TRAINS, AMX_CLUSTER_BINDINGS="the_bindings")
    assert (ran.stdout, ran.stderr) == (f"bindings False\n{TRAINED}", "")
    ran = rank.run(TRAINS, AMX_CLUSTER_BINDINGS="no_bindings")
    assert ran.returncode == 1
    assert "ModuleNotFoundError: No module named 'no_bindings'" in ran.stderr


def test_the_other_ranks_write_nothing(rank: Rank) -> None:
    assert rank.run(TRAINS, rank=1).returncode == 0
    assert rank.left() == {"lock.node1.1"}


def test_entering_is_told_before_the_group_is_there(rank: Rank) -> None:
    (rank.packages / "torch/distributed/distributed_c10d.py").write_text(
        textwrap.dedent(PACKAGES["torch/distributed/distributed_c10d.py"]).replace(
            "formed = True\n", 'raise ConnectionError("nobody came")\n'
        )
    )
    assert rank.run(TRAINS).returncode == 1
    assert (rank.job / "ranks/entered.json").exists()
    assert not (rank.job / "world.json").exists()


def test_a_group_that_is_not_watched_is_not_asked_for_anything(rank: Rank) -> None:
    assert rank.run(TRAINS, plan={"watch": {"group": False}}).stdout == TRAINED
    assert rank.left() == {"lock.node1.0"}


BEGINS = """
from types import SimpleNamespace
from transformers import trainer
[kind] = trainer.DEFAULT_CALLBACKS
kind().on_train_begin(SimpleNamespace(world_size=1), SimpleNamespace(global_step=0, max_steps=0), None)
print("it trains")
"""
STEPS = """
from types import SimpleNamespace
from accelerate.optimizer import AcceleratedOptimizer
optimizer = AcceleratedOptimizer()
optimizer.accelerator_state = SimpleNamespace(num_processes=1)
optimizer.step()
print("it trains")
"""
FORMS = "from torch import distributed\ndistributed.init_process_group('gloo')\n"


@pytest.mark.parametrize("script", [BEGINS, STEPS])
def test_a_training_that_is_made_for_a_group_is_refused_without_one(rank: Rank, script: str) -> None:
    # Nor with one that accelerate does not make use of: it does so without ACCELERATE_USE_CPU.
    for begins, does in (("", "has formed no group with them"), (FORMS, "trains as if it were the only one")):
        ran = rank.run(begins + script, rank=1)
        assert (ran.returncode, ran.stdout) == (1, "")
        lines = ran.stderr.splitlines()
        assert (lines[0], lines[-1]) == ("--- rank 1 on node1 failed ---", "--- end of rank 1 ---")
        assert lines[-4:-1] == [
            f"This rank would train a model of its own: 2 ranks were started and the script {does}.",
            "accelerate trains with all ranks if ACCELERATE_USE_CPU is true, as in jobs, and nothing but "
            "PartialState(cpu=True)",
            "comes before Accelerator(); another script must call torch.distributed.init_process_group before its "
            "first step.",
        ]


def test_arguments_of_a_script_mean_cpus_in_jobs_that_train(rank: Rank) -> None:
    variable = "import os\nos.environ['ACCELERATE_USE_CPU'] = '{}'\n"
    arguments = "from transformers.training_args import TrainingArguments as Arguments\n"
    subclass = "class Own(Arguments):\n    bf16 = {}\n    def __post_init__(self):\n        super().__post_init__()\n"
    made = "made = Own()\nmade.__post_init__()\nprint(made.use_cpu)"
    assert rank.run(f"{variable.format('true')}{arguments}{subclass.format(True)}{made}").stdout == "True\n"
    # Independent ranks, whose variables would make a group of them.
    assert rank.run(f"{arguments}{subclass.format(False)}{made}").stdout == "False\n"
    assert rank.run(f"{variable.format('false')}{arguments}{subclass.format(False)}{made}").stdout == "False\n"


@pytest.mark.parametrize("script", [BEGINS, STEPS])
def test_a_training_alone_that_is_meant(rank: Rank, script: str) -> None:
    assert rank.run(script, size=1).stdout == "it trains\n"
    assert rank.run(script, plan={"watch": {"group": False}}).stdout == "it trains\n"
    alone = "import os\ndel os.environ['RANK'], os.environ['WORLD_SIZE']\n"
    assert rank.run(alone + script).stdout == "it trains\n"
    script = script.replace("world_size=1", "world_size=2").replace("num_processes=1", "num_processes=2")
    assert rank.run(FORMS + script).stdout == "it trains\n"


def test_an_optimizer_before_the_group_forms_is_left_alone(rank: Rank, supervisor: Supervisor) -> None:
    """It fits something small, perhaps; a script that forms no group at all is found out at its end."""
    script = "from torch import optim\noptim.Optimizer().step()\n"
    ran = rank.run(script + textwrap.dedent(TRAINS), AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert (ran.stdout, ran.stderr) == (f"step\n{TRAINED}", "")
    last = supervisor.told()[-1]
    assert (last["alone"], last["stepped"]) == (1, True)


def test_a_step_without_a_group_is_none_that_a_restart_could_go_on_from(rank: Rank, supervisor: Supervisor) -> None:
    rank.run("from torch import optim\noptim.Optimizer().step()", AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert [message["stepped"] for message in supervisor.told()][-1:] == [False]


def test_a_torch_without_hooks_trains(rank: Rank) -> None:
    path = rank.packages / "torch/optim/optimizer.py"
    path.write_text(path.read_text().replace("register_optimizer_step_pre_hook", "other"))
    assert rank.run(TRAINS).stdout == TRAINED


# --- optimized steps ---

IMPORTED = """
    import sys
    import torch
    print([name for name in sys.modules if "amx_cluster.optimize" in name])
"""


def test_nothing_of_optimize_is_imported_where_no_part_is_on(rank: Rank) -> None:
    for told in ({}, {"AMX_CLUSTER_OPTIMIZE": ""}):
        ran = rank.run(IMPORTED, **told)
        assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_what_a_torch_does_not_have_is_left_to_it(rank: Rank) -> None:
    ran = rank.run(IMPORTED, AMX_CLUSTER_OPTIMIZE="dropout")
    assert "amx_cluster.optimize" in ran.stdout
    assert ran.stderr.startswith("optimize: dropout is off with torch ")


# --- the Trainer ---

SUMS = {"ranks": 2, "accumulation": 2}  # of the Trainer below
TRAINER = """
    from types import SimpleNamespace
    from torch import distributed
    from transformers import trainer

    distributed.init_process_group("gloo")
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
    assert (rank.job / "progress.json").stat().st_mode & 0o777 == 0o600
    progress = rank.read("progress.json")
    assert progress.pop("began") <= progress.pop("time")
    assert progress.pop("metrics") == {"loss": 0.25}
    assert (progress.pop("steady"), progress.pop("training")) == (None, {"epochs": None, "sums": SUMS})
    assert progress == {"step": 5, "first_step": 0, "max_steps": 10, "epoch": 0.5, "samples_per_step": 32}


def test_padding_of_batches_is_counted(rank: Rank) -> None:
    script = """
        class Mask(list):
            dim = lambda self: 2
            numel = lambda self: 10
            count_nonzero = lambda self: 4

        batch = {"attention_mask": Mask()}
        for inputs in (batch, {**batch, "labels": 1}, {}, {"attention_mask": None}):
            print(trainer.Trainer().training_step("model", inputs, num_items_in_batch=3))
    """
    before, after = TRAINER.split("    state.global_step, state.epoch = 5, 0.5")
    ran = rank.run(
        textwrap.dedent(before)
        + textwrap.dedent(script)
        + "state.global_step, state.epoch = 5, 0.5"
        + textwrap.dedent(after)
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines()[1] == "('model', ['attention_mask', 'labels'], 3)"
    assert rank.read("progress.json")["training"] == {
        "epochs": None,
        "sums": SUMS,
        "positions": 20,
        "tokens": 8,
        "not_computed": 0,
        "batches": 2,
        "squares": 200,
    }


CURVES = """
    from types import SimpleNamespace
    from torch import distributed
    from transformers import trainer
    distributed.init_process_group("gloo")
    args = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=2, world_size=2)
    unused, first, second = [kind() for kind in 3 * trainer.DEFAULT_CALLBACKS]
    for callback, step in ((first, 3), (second, 0)):
        state = SimpleNamespace(global_step=step, max_steps=5000, epoch=0.0)
        callback.on_train_begin(args, state, None)
        for state.global_step in range(step + 1, 1503):
            callback.on_log(args, state, None, logs={"loss": 0.5, "note": "text"})
"""


def test_all_that_rank_0_logs_reaches_the_supervisor(rank: Rank, supervisor: Supervisor) -> None:
    ran = rank.run(CURVES, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stderr == ""
    told = supervisor.told()
    assert max(len(beat["logged"]) for beat in told) <= 1000
    entries = [entry for beat in told for entry in beat["logged"]]
    assert all(before["time"] <= after["time"] for before, after in zip(entries, entries[1:]))
    for entry in entries:
        entry.pop("time")
    expected: list[dict[str, Any]] = []
    for number, step in ((0, 3), (1, 0)):
        expected.append({"trainer": number, "begin": step})
        expected += [{"trainer": number, "step": at, "metrics": {"loss": 0.5}} for at in range(step + 1, 1503)]
    assert entries == expected


def test_other_ranks_log_nothing(rank: Rank, supervisor: Supervisor) -> None:
    assert rank.run(CURVES, rank=1, AMX_CLUSTER_BEAT=supervisor.endpoint).returncode == 0
    assert not any(beat["logged"] for beat in supervisor.told())


def test_what_cannot_be_sent_is_sent_later() -> None:
    OBSERVED.logged.extend({"step": step} for step in range(3))
    with pytest.raises(ConnectionError), OBSERVED.logged_until_sent() as taken:
        assert [entry["step"] for entry in taken] == [0, 1, 2]
        OBSERVED.logged.append({"step": 3})
        raise ConnectionError
    assert [entry["step"] for entry in OBSERVED.logged] == [0, 1, 2, 3]


def test_progress_of_a_run_that_goes_on_from_a_checkpoint(rank: Rank) -> None:
    ran = rank.run(TRAINER.replace("global_step=0", "global_step=3"))
    assert ran.stderr == ""
    assert rank.read("progress.json")["first_step"] == 3


@pytest.mark.parametrize(("first", "steady"), [(0, 5), (3, 8)])
def test_when_the_warm_up_ended(rank: Rank, first: int, steady: int) -> None:
    script = TRAINER.replace("global_step=0", f"global_step={first}").replace("max_steps=10", "max_steps=20")
    steps = "\nfor state.global_step in range({}, 15):\n    callback.on_step_end(args, state, None)\n"
    report = "callback.on_log(args, state, None)\n"
    ran = rank.run(textwrap.dedent(script) + steps.format(first + 1) + report)
    assert ran.stderr == ""
    told = rank.read("progress.json")
    assert (told["step"], told["steady"]["step"]) == (14, steady)
    assert told["began"] <= told["steady"]["time"] <= told["time"]


MODEL = """
    class Tensor:
        def __init__(self, rows, width, trained=True, used=()):
            self.shape, self.requires_grad, self.grad, self.used = (rows, width), trained, self, used

        def numel(self):
            return self.shape[0] * self.shape[1]

        def element_size(self):
            return 4

        def ne(self, _zero):
            return self

        def any(self, dim):
            return self

        def sum(self):
            return len(self.used)

    class Embedding:
        weight = Tensor(100, 8, used=range(7))

    class Linear:
        weight = Tensor(8, 8)

    class Frozen:
        weight = Tensor(1000, 8, trained=False)

    class Model:
        def modules(self):
            return [self, Embedding(), Linear(), Frozen()]

        def parameters(self):
            return [Embedding.weight, Linear.weight, Frozen.weight]

    model, loader = Model(), SimpleNamespace(dataset=range(500))
    args.num_train_epochs = 3.0
    callback.on_train_begin(args, state, None, model=model, train_dataloader=loader)
    callback.on_pre_optimizer_step(args, state, None, model=model)
    callback.on_log(args, state, None)
"""


@pytest.mark.parametrize("measured", [False, True])
def test_what_a_training_is_made_up_of(rank: Rank, measured: bool) -> None:
    ran = rank.run(
        textwrap.dedent(TRAINER) + textwrap.dedent(MODEL), plan={"measure": {"warmup_steps": 5}} if measured else {}
    )
    assert ran.stderr == ""
    found = {
        "epochs": 3.0,
        "sums": SUMS,
        "samples": 500,
        "parameters": 864,
        "gradient_bytes": 3456,
        "embedding_bytes": 3200,
    }
    assert rank.read("progress.json")["training"] == {**found, **({"touched": 0.07} if measured else {})}


def test_only_rank_0_tells_its_progress(rank: Rank) -> None:
    assert rank.run(TRAINER, rank=1).returncode == 0
    assert not (rank.job / "progress.json").exists()


def test_a_disk_that_is_full_does_not_end_the_script(rank: Rank) -> None:
    script = "import os, sitecustomize\nos.replace = None\n" + textwrap.dedent(TRAINER) + "print('trained')"
    full = "def full(*_files):\n    raise OSError(28, 'No space left on device')\n"
    ran = rank.run(full + script.replace("os.replace = None", "os.replace = full"))
    assert (ran.stdout, ran.stderr) == ("trained\n", "")


SAVES = """
    import os, sys
    from types import SimpleNamespace
    from transformers import trainer

    (callback,) = [kind() for kind in trainer.DEFAULT_CALLBACKS]
    args = SimpleNamespace(output_dir="output")

    def save(step, text, names=("model", "deep/state")):
        folder = f"output/checkpoint-{step}"
        os.makedirs(f"{folder}/deep", exist_ok=True)
        for name in names:
            with open(f"{folder}/{name}", "w") as stream:
                stream.write(text)
        callback.on_save(args, SimpleNamespace(global_step=step), None)
"""
TWICE = """
    save(5, "weights")
    save(5, "weights")
    save(10, "more weights")
    callback.on_save(args, SimpleNamespace(global_step=11), None)  # Trainer saved nothing
"""


def test_a_checkpoint_is_marked_when_all_of_it_is_there(rank: Rank) -> None:
    ran = rank.run(SAVES + TWICE, size=1)
    assert ran.stderr == ""
    assert rank.read("output/checkpoint-10/complete.json") == {"model": 12, "deep/state": 12}
    # Written over by a later run: the first mark is not counted as one of its files.
    assert rank.read("output/checkpoint-5/complete.json") == {"model": 7, "deep/state": 7}
    assert checkpoints.last_complete(rank.job / "output") == rank.job / "output/checkpoint-10"
    assert sorted(path.name for path in (rank.job / "output").iterdir()) == ["checkpoint-10", "checkpoint-5"]
    assert sorted(path.name for path in (rank.job / "output/checkpoint-5").iterdir()) == [
        "complete.json",
        "deep",
        "model",
    ]


START = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4242"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_checkpoint_is_complete_when_every_rank_of_the_host_has_saved_its_part(
    rank: Rank, order: tuple[int, int]
) -> None:
    folder = rank.job / "output/checkpoint-5"
    (folder / "deep").mkdir(parents=True)
    (folder / "rng_state_1.pth").write_text("half")  # what rank 1 has written of it when rank 0 is done
    parts = {0: "save(5, 'weights')", 1: "save(5, 'a whole state', ['rng_state_1.pth'])"}
    for number in order:
        assert not checkpoints.is_complete(folder)
        assert rank.run(textwrap.dedent(SAVES) + parts[number], rank=number, **START).stderr == ""
    assert checkpoints.is_complete(folder)
    assert rank.read("output/checkpoint-5/complete.json") == {"model": 7, "deep/state": 7, "rng_state_1.pth": 13}


def test_the_mark_of_an_earlier_start_is_none(rank: Rank) -> None:
    folder = rank.job / "output/checkpoint-5"
    saves = textwrap.dedent(SAVES) + "save(5, 'weights')"
    assert rank.run(saves, rank=1, **START).returncode == 0
    assert rank.run(saves, rank=0, **{**START, "MASTER_PORT": "4243"}).returncode == 0
    assert not checkpoints.is_complete(folder)


def test_a_checkpoint_in_a_directory_that_hosts_share(rank: Rank) -> None:
    def plan(here: str) -> dict[str, Any]:
        """Return a plan in which this host is the one named."""
        hosts = [{"host": f"node{rank + 1}", "env": {}, "ranks": [{"rank": rank}]} for rank in range(2)]
        placed = [{**host, "address": "127.0.0.1" if host["host"] == here else "192.0.2.1"} for host in hosts]
        return {"world_size": 2, "shared_directory": True, "hosts": placed}

    saves = textwrap.dedent(SAVES) + "save(5, 'weights')"
    rank.run(saves, plan=plan("node1"), **START)
    assert not checkpoints.is_complete(rank.job / "output/checkpoint-5")
    rank.run(saves, rank=1, plan=plan("node2"), MPI_LOCALRANKID="0", **START)
    assert checkpoints.is_complete(rank.job / "output/checkpoint-5")


def test_what_a_host_without_rank_0_saves_is_a_part_of_a_checkpoint(rank: Rank, supervisor: Supervisor) -> None:
    plan = {
        "hosts": [
            {"host": "node0", "env": {}, "ranks": [{"rank": 0}]},
            {"host": "node1", "env": {}, "ranks": [{"rank": 1}]},
        ]
    }
    saves = textwrap.dedent(SAVES) + "save(5, 'state', ['deep/shard', 'rng_state_1.pth'])"
    beats = {"AMX_CLUSTER_BEAT": supervisor.endpoint}
    assert rank.run(saves, rank=1, plan=plan, MPI_LOCALRANKID="0", **beats).stderr == ""
    folder = rank.job / "output/checkpoint-5"
    assert rank.read("output/checkpoint-5/part.json") == {"deep/shard": 5, "rng_state_1.pth": 5}
    assert not checkpoints.is_complete(folder)
    found = checkpoints.part(folder)
    # A rank can do without the state of its random numbers.
    assert (found.leads, found.files, found.finished) == (False, {"deep/shard": 5}, ["deep/shard", "rng_state_1.pth"])
    told = supervisor.told()[-1]["part"]["checkpoint-5"]
    assert sorted(told) == ["deep/shard", "part.json", "rng_state_1.pth"]


# --- heartbeats ---


def test_a_rank_tells_the_supervisor_how_it_is(rank: Rank, supervisor: Supervisor) -> None:
    script = textwrap.dedent(TRAINS) + "\nimport time\ntime.sleep(2.5)"
    ran = rank.run(script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stderr == ""
    told = supervisor.told()
    assert len(told) >= 3  # at once, after two seconds, and at its end
    first, *_others, last = told
    assert (first["rank"], first["host"], first["ended"]) == (0, "node1", False)
    assert (last["stepped"], last["ended"], last["gradient"], last["waiting"]) == (True, True, None, False)
    assert 2.4 < last["idle"] < 20
    assert last["cpu_seconds"] >= first["cpu_seconds"] > 0
    assert last["time"] > first["time"]
    assert 2**20 < last["rss_bytes"] < 2**33
    assert last["network_bytes"] >= 0
    assert last["oom_kills"] >= -1
    files: dict[str, Any] = {}
    for message in told:
        files.update(message["files"])
    assert files == {"ranks/entered.json": rank.read("ranks/entered.json"), "world.json": rank.read("world.json")}


def test_a_rank_that_makes_no_progress_tells_where_it_is(rank: Rank, supervisor: Supervisor) -> None:
    later = """
    import time
    from amx_cluster.observer import observer
    observer.heartbeat.STACK = 0  # it need not be long

    def reads_data():
        time.sleep(2.5)

    reads_data()
    """
    ran = rank.run(TRAINS + later, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stderr == ""
    assert any("in reads_data" in message.get("stack", "") for message in supervisor.told())


def watch(folder: Path, scripts: dict[str, tuple[str, bool]]) -> dict[str, dict[str, Any]]:
    """Run scripts side by side, each as a rank of its own, and wait for what is expected: {name: (script, gets_on)}.

    One that gets on has made progress just now although it began long ago, one that does not has made none for long.
    Returns the message of each that shows it.
    """
    running = {}
    for name, (script, _gets_on) in scripts.items():
        place = folder / name
        place.mkdir()
        rank, supervisor = Rank(place), Supervisor()
        path = rank.packages / "torch/distributed/distributed_c10d.py"
        path.write_text(path.read_text() + textwrap.dedent(POLLS))
        quicker = "from amx_cluster.observer import observer\nobserver.heartbeat.SECONDS = 0.5\n"
        running[name] = rank.start(quicker + textwrap.dedent(script), AMX_CLUSTER_BEAT=supervisor.endpoint), supervisor
    found: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + 60
    while len(found) < len(scripts) and time.monotonic() < end:
        time.sleep(0.2)
        for name, (_script, gets_on) in scripts.items():
            for message in running[name][1].messages[1:]:
                old = message["time"] - running[name][1].messages[0]["time"] > 5
                if old and (message["idle"] < 2 if gets_on else message["idle"] > 3.5):
                    found[name] = message
    errors = {}
    for name, (process, supervisor) in running.items():
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started
        _out, errors[name] = process.communicate()
        supervisor.told()
        supervisor.receiver.close()
    assert set(found) == set(scripts), errors
    return found


# A made-up torch's collective operation, which polls as MPI's and oneCCL's do.
POLLS = """
    def all_reduce(tensor):
        while True: pass
"""
BUSY = "import time\nuntil = time.monotonic() + 30\nwhile time.monotonic() < until: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
GRANDCHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


@pytest.mark.parametrize("stepped", [False, True])
def test_progress_is_a_step_or_work_of_any_process_of_the_rank(tmp_path: Path, stepped: bool) -> None:
    """Before the first step as after it."""
    begins = """
import os, subprocess, sys, threading, time
from torch import distributed, optim
"""
    if stepped:
        begins += "distributed.init_process_group('gloo')\noptim.Optimizer().step()\n"
    works = {
        "it sleeps": ("time.sleep(30)", False),
        "its child sleeps": ("subprocess.run(['sleep', '30'])", False),
        "it works": (BUSY, True),
        "its child works": (CHILD, True),
        "what a thread's child has started works": (
            f"threading.Thread(target=exec, args=[{GRANDCHILD!r}]).start(); time.sleep(30)",
            True,
        ),
        # As a checkpoint to a slow disk: that takes hardly any processor time.
        "it writes": (
            "out = os.open('file', os.O_CREAT | os.O_WRONLY)\n"
            "while True: os.pwrite(out, bytes(1 << 20), 0), time.sleep(0.3)",
            True,
        ),
        "it evaluates": ("while True: observer.activity.note(), time.sleep(0.3)", True),
    }
    told = watch(tmp_path, {name: (begins + work, gets_on) for name, (work, gets_on) in works.items()})
    assert {name: message["stepped"] for name, message in told.items()} == dict.fromkeys(works, stepped)
    # Its use of processors is that of all its processes.
    sleeps = told["it sleeps"]["cpu_seconds"]
    assert all(told[name]["cpu_seconds"] > sleeps for name in works if name.endswith("works"))


def test_a_wait_for_others_that_uses_a_processor_is_no_progress(tmp_path: Path) -> None:
    begins = """
import functools, hashlib, os, threading, time
from torch.distributed import distributed_c10d

# As torch's: not Python, without a frame of its own, and others run meanwhile.
class Work:
    def __init__(self):
        self.wait = functools.partial(hashlib.pbkdf2_hmac, "sha256", b"", b"", 10**9)

work = Work()
"""
    calls = {
        "a collective operation": ("distributed_c10d.all_reduce(1)", False),
        "a wait for one": ("work.wait()", False),
        "the same in a thread": ("threading.Thread(target=work.wait).start()", True),
        "something else": ("hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)", True),
    }
    told = watch(tmp_path, {name: (begins + call, gets_on) for name, (call, gets_on) in calls.items()})
    assert {name: message["waiting"] for name, message in told.items()} == {
        name: not gets_on for name, (_call, gets_on) in calls.items()
    }


def test_a_backward_pass_that_works_is_told_from_one_that_waits(tmp_path: Path) -> None:
    """Both use a processor, and Python's stack is the same. The engine calls back when all gradients are computed."""
    begins = """
import hashlib

def _engine_run_backward():
    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)

"""
    waits = "observer.activity.reducing = True\n"
    told = watch(
        tmp_path,
        {
            "it computes": (f"{begins}_engine_run_backward()", True),
            "it waits for reductions": (f"{begins}{waits}_engine_run_backward()", False),
        },
    )
    assert {message["waiting"] for message in told.values()} == {True}


def test_a_wait_in_the_backend_mpi_is_told_from_its_use(tmp_path: Path) -> None:
    """A thread of the backend polls, or the main one does, whose stack is now here and now there."""
    begins = """
import os, sys, threading
os.makedirs("made/amx_cluster_mpi")
sys.path.insert(0, "made")
for name, code in {"__init__": "", "activity": "ended = 0", "work": WORK}.items():
    with open(f"made/amx_cluster_mpi/{name}.py", "w") as file:
        file.write(code)
from amx_cluster_mpi import activity, work
"""
    work = """
import hashlib, threading
from amx_cluster_mpi import activity

def poll():
    while True:
        short()
        hashlib.pbkdf2_hmac('sha256', b'', b'', 10**6)

def short():
    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**6)

def use():
    while True:
        short()
        activity.ended += 1

def call(back):
    back()

ended = threading.Event()

def wait_for_thread():
    ended.wait()
"""
    calls = {
        "it polls": ("work.poll()", False),
        "a thread polls for it": (
            "threading.Thread(target=work.poll, daemon=True).start()\nwork.wait_for_thread()",
            False,
        ),
        "its collectives end": ("work.use()", True),
        "it calls back what works": (f"work.call(lambda: exec({BUSY!r}, {{}}))", True),
        "a thread of the script works": (
            f"threading.Thread(target=exec, args=[{BUSY!r}], daemon=True).start()\nimport time\ntime.sleep(30)",
            True,
        ),
    }
    begins = begins.replace("WORK", repr(work))
    told = watch(tmp_path, {name: (begins + call, gets_on) for name, (call, gets_on) in calls.items()})
    assert {name for name, message in told.items() if message["waiting"]} == {
        "it polls",
        "a thread polls for it",
        "its collectives end",
    }


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU for the rank and one to communicate on")
def test_threads_that_communicate_on_cores_of_their_own_are_no_work_of_the_rank(tmp_path: Path) -> None:
    """oneCCL's workers poll as long as the group exists."""
    mine, other = sorted(os.sched_getaffinity(0))[:2]
    script = """
import os, threading, time

def poll():
    os.sched_setaffinity(0, [CPU])
    while True: [None for _number in range(10000)]

threading.Thread(target=poll, daemon=True).start()
time.sleep(30)
"""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {mine})  # the rank's domain
    try:
        watch(
            tmp_path,
            {
                "inside": (script.replace("CPU", str(mine)), True),
                "outside": (script.replace("CPU", str(other)), False),
            },
        )
    finally:
        os.sched_setaffinity(0, before)


def test_the_family_of_a_process() -> None:
    """Also where the kernel has no list of children."""
    command = "sleep 30 & (sleep 30; true) & wait"
    with subprocess.Popen(["sh", "-c", f"sh -c '{command}'; true"], start_new_session=True) as process:
        try:
            until(lambda: len(usage.family(process.pid)) >= 4)
            found = usage.family(process.pid)
            assert sorted(usage.family_by_parents(process.pid)) == sorted(found)
            assert all(os.getpgid(pid) == process.pid for pid in found)
            assert process.pid not in found
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_who_could_run_and_has_no_processor_is_told_from_who_waits() -> None:
    cpu = min(os.sched_getaffinity(0))
    spin = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nos.nice(int(sys.argv[2]))\nwhile True: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spin, str(cpu), nice]) for nice in ("0", "0", "0", "19")]
    starved = spinning[-1].pid
    try:
        grew, end = 0.0, time.monotonic() + 60
        while grew < 0.5:  # interpreters are slow to start on a machine with much to do
            assert time.monotonic() < end
            before, began = usage.delays(starved), time.monotonic()
            time.sleep(1)
            grew = usage.longest(before, usage.delays(starved)) / (time.monotonic() - began)
        assert usage.delays(starved, starved).keys() == {starved}
        os.kill(starved, signal.SIGSTOP)
        os.waitid(os.P_PID, starved, os.WSTOPPED)
        before = usage.delays(starved)
        time.sleep(0.5)
        assert usage.longest(before, usage.delays(starved)) == 0
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    assert usage.delays(starved) == {}
    assert usage.longest({1: 5.0}, {}) == 0


def test_only_what_was_waited_since_the_last_look_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank's own thread is not compared while it spins in a collective, and then not with its whole life."""
    own, waited = os.getpid(), {"own": 0.0}
    seen = Activity(OBSERVED)
    monkeypatch.setattr(usage, "delays", lambda *_process: {own: waited["own"]})
    monkeypatch.setattr(usage, "family", lambda _pid: [])
    found = []
    for seconds, spins in ((100.0, True), (100.2, True), (100.3, False), (101.2, True), (102.0, False)):
        waited["own"] = seconds
        found.append(seen.is_delayed(spins, 1.0))
    assert found == [False, False, False, False, True]


# --- who speaks for the rank ---

CHILDREN = """
import multiprocessing, os, subprocess, sys, time
from torch import distributed, optim

CODE = '''
import os, sys
print(sorted(name for name in os.environ if name in ("AMX_CLUSTER_RANK", "AMX_CLUSTER_BEAT")), flush=True)
print("amx_cluster.observer" in sys.modules, flush=True)
import torch.distributed
torch.distributed.init_process_group("gloo")
raise KeyError("raised in a child")
'''

def in_another_process():
    distributed.init_process_group("gloo")
    optim.Optimizer().step()
    raise KeyError("raised in another process")

if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", CODE])
    if not os.fork():
        in_another_process()
    os.wait()
    process = multiprocessing.get_context("spawn").Process(target=in_another_process)
    process.start()
    process.join()
    time.sleep(2.5)
    print("the rank ends")
"""


def test_only_the_process_that_rank_py_became_speaks_for_the_rank(rank: Rank, supervisor: Supervisor) -> None:
    ran = rank.run(CHILDREN, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stdout == "[]\nFalse\nstep\nstep\nthe rank ends\n"
    assert ran.stderr.count("KeyError: 'raised in a child'") == 1
    assert ran.stderr.count("KeyError: 'raised in another process'") == 2
    assert "--- rank" not in ran.stderr  # no failure of the rank's
    assert rank.left() == {"lock.node1.0"}  # no child wrote world.json
    told = supervisor.told()
    assert len({message["pid"] for message in told}) == 1
    assert not any(message["stepped"] or message["files"] for message in told)
    assert [message["ended"] for message in told].count(True) == 1


BOUND = """
import os, subprocess, sys, threading, time

cpus = sorted(os.sched_getaffinity(0))
if "anew" in sys.argv:
    sys.exit(f"anew {len(cpus)}")

def show(who):
    print(who, len(os.sched_getaffinity(0)), flush=True)
    subprocess.run([sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)), flush=True)"])

def bound_as_by_openmp():
    os.sched_setaffinity(0, cpus[1:2])
    bound.set()
    time.sleep(60)

os.sched_setaffinity(0, cpus[:1])
show("alone")
bound = threading.Event()
threading.Thread(target=bound_as_by_openmp, daemon=True).start()
bound.wait()
show("with others")
os.sched_setaffinity(0, cpus[1:])
show("elsewhere")
os.sched_setaffinity(0, cpus[:1])
os.execv(sys.executable, [sys.executable, *sys.argv, "anew"])
"""


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs a CPU that the rank has and its main thread has not"
)
def test_only_what_openmp_has_bound_is_undone(rank: Rank) -> None:
    """It has bound the threads of a process to one CPU each. A script binds itself alone, or to several."""
    ran = rank.run(BOUND)
    count = len(os.sched_getaffinity(0))
    lines = ["alone 1", "1", f"with others {count}", f"{count}", f"elsewhere {count - 1}", f"{count - 1}"]
    assert ran.stdout.splitlines() == lines
    assert f"\nanew {count}\n" in ran.stderr


def test_a_script_that_starts_itself_anew_is_the_rank_again(rank: Rank, supervisor: Supervisor) -> None:
    script = """
    import os, sys, time
    if "again" not in sys.argv:
        os.environ.pop("RANK")
        os.execvp(sys.executable, [sys.executable, *sys.argv, "again"])
    print("again")
    time.sleep(1)
    raise KeyError("x")
    """
    ran = rank.run(script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stdout == "again\n"
    assert ran.stderr.startswith("--- rank 0 on node1 failed ---\n")
    told = supervisor.told()
    assert len({message["pid"] for message in told}) == 1
    assert told[-1]["ended"]


def test_what_the_script_does_to_its_environment_does_not_matter(rank: Rank, supervisor: Supervisor) -> None:
    path = rank.packages / "torch/distributed/distributed_c10d.py"
    path.write_text(path.read_text().replace('int(os.environ["WORLD_SIZE"])', "2"))
    script = f"import os\nos.environ.clear()\n{textwrap.dedent(TRAINS)}\nimport time; time.sleep(2.5); raise KeyError"
    ran = rank.run(script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.stdout == TRAINED
    assert ran.stderr.startswith("--- rank 0 on node1 failed ---\n")
    assert [entry["host"] for entry in rank.read("world.json")["ranks"]] == ["node1", "node1"]
    assert supervisor.told()[-1]["ended"]


IMPATIENT = """
import os, resource, socket, sys, time
from amx_cluster.observer import observer
heartbeat = observer.heartbeat
heartbeat.SECONDS, heartbeat.PATIENCE = 0.2, 1.0
time.sleep(2.5)  # the first pause was longer
"""


def test_a_rank_without_its_supervisor_ends(rank: Rank, supervisor: Supervisor) -> None:
    process = rank.start(IMPATIENT + "time.sleep(30)", AMX_CLUSTER_BEAT=supervisor.endpoint)
    time.sleep(1.5)
    supervisor.told()
    supervisor.receiver.close()
    assert process.communicate(timeout=30)[1] == "the job's supervisor has not answered for 1 s: this rank ends\n"
    assert process.returncode == 70


@pytest.mark.parametrize(
    "left", ["threading.Thread(target=time.sleep, args=(600,)).start()", "atexit.register(time.sleep, 600)"]
)
def test_a_script_that_has_failed_ends_though_it_has_left_something(
    rank: Rank, supervisor: Supervisor, left: str
) -> None:
    script = f"import atexit, threading\ntype(heartbeat).FAILED = 1.0\n{left}\nraise SystemExit('no column x')"
    ran = rank.run(IMPATIENT + script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert ran.returncode == 1
    assert ran.stderr.endswith("threads or processes of the script go on 1 s after its failure: this rank ends\n")
    assert supervisor.all()[-1]["exit"] == 1


@pytest.mark.parametrize("cut", [True, False])
def test_a_rank_that_lacks_something_itself_does_not_end(rank: Rank, supervisor: Supervisor, cut: bool) -> None:
    """Too many open files: no further connection, nothing of /proc can be read, and the rank counts as at work."""
    script = f"""
held = []
if {cut}:
    lost, heartbeat.connection.socket = heartbeat.connection.socket, None
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(error.errno)
time.sleep(3)
print("not ended", heartbeat.cut_off)
"""
    ran = rank.run(IMPATIENT + script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "24\nnot ended None\n", "")
    told = supervisor.told()
    # It needs no further descriptor for the connection that it has.
    assert told[-1]["ended"] is not cut
    assert cut or told[-1]["idle"] < 2


def test_a_script_that_closes_all_descriptors_gets_nothing_into_its_files(rank: Rank, supervisor: Supervisor) -> None:
    script = """
number = heartbeat.connection.socket.fileno()
os.closerange(3, 256)
pairs = [socket.socketpair() for _pair in range(number)]
others = {one.fileno(): other for pair in pairs for one, other in (pair, pair[::-1])}
time.sleep(1.5)
others[number].setblocking(False)
try:
    print(others[number].recv(100))
except BlockingIOError:
    print("nothing")
"""
    ran = rank.run(IMPATIENT + script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert (ran.stdout, ran.stderr) == ("nothing\n", "")
    assert supervisor.told()[-1]["ended"]


def test_a_supervisor_that_is_gone_does_not_hold_up_the_script(rank: Rank) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    ran = rank.run(TRAINS, AMX_CLUSTER_BEAT=f"127.0.0.1:{port}:secret")
    assert (ran.stdout, ran.stderr) == (TRAINED, "")


# --- what a rank prints ---


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
    refused = rank.run("raise SystemExit('enough')").stderr
    assert refused == "--- rank 0 on node1 failed ---\nenough\n--- end of rank 0 ---\n"


LEAVES = {
    "raise ValueError('broken')": {"failed": "ValueError: broken"},
    "raise SystemExit('no column x')": {"failed": "no column x"},
    "import os; os.closerange(0, 3); raise ValueError('broken')": {"failed": "ValueError: broken"},
    "import os; os.closerange(0, 256); raise ValueError('broken')": {"failed": "ValueError: broken"},
    "import sys; print('no column x\\n', file=sys.stderr); sys.exit(2)": {"said": "no column x"},
    "import os, sys; sys.stderr.write('no '); sys.stderr.write('column x\\n'); os._exit(3)": {"said": "no column x"},
}


@pytest.mark.parametrize("script", LEAVES)
def test_the_last_that_a_rank_says_reaches_the_supervisor(rank: Rank, supervisor: Supervisor, script: str) -> None:
    """With the steps that it has made, also where these take less than the time between two heartbeats."""
    rank.run(textwrap.dedent(TRAINS) + script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    last = supervisor.told()[-1]
    (name, words), *_none = LEAVES[script].items()
    assert last[name].strip().endswith(words)
    assert (last["stepped"], last["ended"]) == (True, True)


def test_a_long_message_is_told_from_its_beginning(rank: Rank, supervisor: Supervisor) -> None:
    rank.run("raise ValueError('no column x\\n' + 'y\\n' * 10000)", AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert faults.last_words(supervisor.told()[-1]["failed"]).startswith("ValueError: no column x y y")


def test_the_first_step_is_told_at_once(rank: Rank, supervisor: Supervisor) -> None:
    """A rank may be killed at the second one."""
    script = textwrap.dedent(TRAINS) + "\nimport os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)"
    rank.run(script, AMX_CLUSTER_BEAT=supervisor.endpoint)
    assert any(message["stepped"] for message in supervisor.told())


def test_an_interpreter_that_complains_at_its_end_is_no_failure(rank: Rank) -> None:
    script = """
    class Late:
        def __del__(self):
            raise ValueError("late")
    kept = Late()
    import atexit
    @atexit.register
    def fail():
        raise KeyError("at exit")
    """
    ran = rank.run(script)
    assert ran.returncode == 0
    assert "late" in ran.stderr and "at exit" in ran.stderr and "failed ---" not in ran.stderr


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


def test_the_next_sitecustomize_still_runs(rank: Rank) -> None:
    (rank.packages / "sitecustomize.py").write_text("print('the other one', flush=True)")
    assert rank.run("print('script')").stdout == "the other one\nscript\n"
    # In children as well.
    script = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])"
    assert rank.run(script).stdout == "the other one\nthe other one\n1\n"


def test_outside_a_job_nothing_is_watched(rank: Rank) -> None:
    (rank.job / "script.py").write_text(textwrap.dedent(TRAINS) + "raise KeyError('x')")
    environ = {"PYTHONPATH": f"{runtimes.installed()}:{rank.packages}", "RANK": "0", "WORLD_SIZE": "2"}
    command = [sys.executable, "-B", "script.py"]
    ran = subprocess.run(command, cwd=rank.job, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout == TRAINED
    assert ran.stderr.startswith("Traceback")
    assert rank.left() == set()
