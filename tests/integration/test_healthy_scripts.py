"""Scripts that do what real ones do run to their end undisturbed, and those that are at fault do not.

Each script of zoo/ runs as two ranks of a job on this machine, with the real mpirun, rank.py, observer, supervisor,
torch and transformers, as soon as a job may not stall for more than a few seconds. docs/watching.md says what may be
concluded from what.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.at_length import AT_LENGTH, only_at_length
from support.zoo import Case, run

# Jobs at a time: they share the machine's cores, and wait most of the time.
LANES = 3


TRAINER: dict[str, Any] = {
    "kind": "trainer",
    "args": {"max_steps": 2, "per_device_train_batch_size": 2, "report_to": "none", "save_strategy": "no"},
}
LONG_STEPS = {
    "kind": "trainer",
    "args": {
        **TRAINER["args"],
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": 100,
        "max_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    },
}
GROUPED = {
    "kind": "trainer",
    "args": {**TRAINER["args"], "train_sampling_strategy": "group_by_length", "per_device_eval_batch_size": 3},
}
SHARDED = {"kind": "trainer", "args": {**TRAINER["args"], "remove_unused_columns": False}}
OWN_START = {
    "code/of_the_job.py": "OWN = 1\n",
    "packages/sitecustomize.py": "import builtins\nbuiltins.OWN = 10\n",
}
# OpenMP with threads, as on every server: it binds them.
BINDS = {"OMP_NUM_THREADS": "2", "KMP_AFFINITY": "granularity=fine,compact,1,0", "KMP_HW_SUBSET": "1T"}
# Waits as oneCCL does: in a backward pass, in C++, with a processor. The bindings are imported before the group forms.
SPINS = {"AMX_CLUSTER_BINDINGS": "spins"}
SPINNING = """
import hashlib, os, threading
if os.environ["RANK"] == "0":
    threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 10**9), daemon=True).start()
"""
COMPRESSED = {"backend": "mpi", "gradient_compression": "bf16"}
MPI = {"backend": "mpi"}
COMMUNICATION_CORE = {"AMX_CLUSTER_MPI_CPUS": str(max(os.sched_getaffinity(0)))}
FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1", "FSDP_AUTO_WRAP_POLICY": "NO_WRAP"}

HEALTHY = {
    "workers of DataLoaders": Case("loaders", expect={"steps": 20}),
    "CPUs of workers that compute for long": Case(
        "worker_cpus", {"backend": "mpi", "env": BINDS}, expect={"processes": 9}
    ),
    "joblib, shared memory, subprocesses": Case("children", expect={"steps": 14, "squares": 285}),
    "steps and evaluations longer than a stall": Case("long_steps", LONG_STEPS, expect={"steps": 1, "eval_counted": 1}),
    "the same, while the other rank waits in MPI": Case(
        "long_steps", {**LONG_STEPS, "backend": "mpi"}, expect={"steps": 1, "eval_counted": 1}
    ),
    "a backward pass longer than a stall": Case("long_backward", expect={"longest": 6}),
    "the same, with mpi": Case("long_backward", {"backend": "mpi"}, expect={"longest": 6}),
    "the same, with compressed gradients": Case("long_backward", COMPRESSED, expect={"longest": 6}),
    "the same, while the other rank spins in C++": Case(
        "long_backward", {"env": SPINS}, {"packages/spins.py": SPINNING}, expect={"longest": 6}
    ),
    "collectives in MPI for longer than a stall": Case("exchanges", {"backend": "mpi"}, expect={"exchanges": 100}),
    "optimizers of a rank's own": Case("probe", expect={"steps": 14}),
    "groups that end": Case("ends", expect={"ended": 60}),
    "rows of like length together": Case("ordered", GROUPED, expect={"right": 203, "rows": 203}),
    "a sharded model": Case("sharded", {**SHARDED, "env": FSDP}, expect={"left": 0.4}),
    "torch.distributed.checkpoint, also in the background": Case("distributed_checkpoint", expect={"steps": 8}),
    # accelerate 1.13 and newer would train on each rank alone, and refuse bf16.
    "a Trainer whose arguments name no CPU": Case(
        "trains", {"args": {**TRAINER["args"], "output_dir": "output", "bf16": True}}, expect={"steps": 2, "world": 2}
    ),
    "two optimizers": Case("two_optimizers", expect={"steps": 20}),
    "gradients that are not finite": Case("overflow", expect={"steps": 20}),
    "torch.compile": Case("compiled", expect={"steps": 5}),
    "PowerSGD, mpi": Case("power_sgd", MPI, expect={"steps": 12}),
    "PowerSGD, mpi on a communication core": Case("power_sgd", MPI, expect={"steps": 12}, rank_env=COMMUNICATION_CORE),
    "work waited for late, and a fork, mpi": Case("late_waits", MPI, expect={"works": 2}),
    "work waited for late, and a fork": Case("late_waits", expect={"works": 2}),
    "a rank that leaves, mpi": Case("leaves", MPI, expect={"left": 1}),
    "a rank that leaves": Case("leaves", expect={"left": 1}),
    "processes that outlive it": Case("leaves_behind", expect={"left": 2}),
    "a start of its own, and a lock held": Case(
        "own_start", {"env": {"PYTHONPATH": "code"}}, OWN_START, expect={"own": 21, "calls": 2}
    ),
}
FAULTS = {
    "a rank hangs": Case("hang", reason="rank 1 on localhost is here"),
    "a rank hangs, and the other waits in MPI": Case("hang", {"backend": "mpi"}, reason="rank 1 on localhost is here"),
    "a rank hangs, and a thread of the other spins in MPI": Case(
        "hang",
        {"backend": "mpi", "env": {"AMX_CLUSTER_MPI_CPUS": str(max(os.sched_getaffinity(0)))}},
        reason="rank 1 on localhost is here",
    ),
    "a rank hangs, and the other spins in C++": Case(
        "hang",
        {"env": SPINS},
        {"packages/spins.py": SPINNING},
        reason="rank 1 on localhost is here",
    ),
    "ranks train apart": Case("apart", reason="the ranks formed a group, but "),
    "ranks train apart, and would send compressed gradients": Case(
        "apart", COMPRESSED, reason="the ranks formed a group, but "
    ),
    "the Trainer's ranks train apart": Case("trainer_apart", TRAINER, reason="the ranks formed a group, but "),
    "a rank leaves without a word": Case("quiet", MPI, reason="rank 1 on localhost ended with exit code 3"),
    "a rank is killed that mpirun does not miss": Case(
        "killed",
        {"kind": "ranks", "stall_seconds": 600},
        reason="rank 1 on localhost was ended by signal 9",
    ),
    "a script forms no group": Case("no_group", reason="the 2 ranks formed no group: "),
}
CASES = {**HEALTHY, **FAULTS}
# What only `make test-all` runs, each like one that always runs.
LEFT_OUT = {
    "joblib, shared memory, subprocesses": "as workers of DataLoaders, and those that compute for long",
    "steps and evaluations longer than a stall": "the same with mpi is run",
    "a backward pass longer than a stall": "the same with mpi is run",
    "the same, with compressed gradients": "the same without compression is run",
    "the same, while the other rank spins in C++": "the same with mpi is run",
    "torch.distributed.checkpoint, also in the background": "test_torn_checkpoints.py runs the script, and kills it",
    "two optimizers": "optimizers of a rank's own are run",
    "groups that end": "groups come and go in those that leave, and in collectives",
    "a sharded model": "test_torn_checkpoints.py trains one",
    "torch.compile": "it compiles for half a minute",
    "PowerSGD, mpi on a communication core": "the same without one is run",
    "work waited for late, and a fork": "the same with mpi is run",
    "a rank that leaves": "the same with mpi is run",
    "a rank hangs": "the same with mpi is run",
    "a rank hangs, and a thread of the other spins in MPI": "the same without such a thread is run",
    "a rank hangs, and the other spins in C++": "the same with mpi is run",
    "ranks train apart, and would send compressed gradients": "the same without compression is run",
    "the Trainer's ranks train apart": "ranks without the Trainer do, and the Trainer without a group",
}


def outcome(case: Case, folder: Path, environment: Path) -> tuple[dict[str, Any], str]:
    """Run a case, and return its status and its log; once more where its ranks never came to the script's first step.

    A busy machine takes longer for that than these jobs may stall, and it says nothing of the script.
    """
    status, log = run(case, folder / "first", environment)
    if "on its way to the first step" in status["reason"]:
        status, log = run(case, folder / "second", environment)
    return status, log


@pytest.fixture(scope="module")
def ended(
    request: pytest.FixtureRequest, environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[dict[str, Any], str]]]]:
    """The jobs of all tests that were asked for, several at a time: {name of the case: its status and log}."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {str(item.callspec.params["name"]) for item in items if item.module is request.module}
    if not AT_LENGTH:
        wanted -= LEFT_OUT.keys()
    with ThreadPoolExecutor(LANES) as pool:
        yield {
            name: pool.submit(outcome, CASES[name], tmp_path_factory.mktemp("zoo"), environment)
            for name in sorted(wanted)
        }


Ended = dict[str, "Future[tuple[dict[str, Any], str]]"]


def parameters(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[only_at_length(LEFT_OUT[name])] if name in LEFT_OUT else []) for name in names]


@pytest.mark.parametrize("name", parameters(HEALTHY))
def test_a_healthy_script_runs_undisturbed(ended: Ended, name: str) -> None:
    status, log = ended[name].result()
    assert (status["state"], status["reason"]) == ("succeeded", ""), f"{status['reason']}\n{log}"
    assert len(status["attempts"]) == 1
    assert "--- rank" not in log
    assert "amx_cluster.observer" not in log  # not in a warning, either


@pytest.mark.parametrize("name", parameters(FAULTS))
def test_a_fault_is_still_found(ended: Ended, name: str) -> None:
    status, log = ended[name].result()
    assert status["state"] == "failed", log
    assert CASES[name].reason in status["reason"]
