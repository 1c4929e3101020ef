"""Run PyTorch's own tests of process groups (torch.testing._internal.distributed, in the wheel) as ranks of mpirun.

    pytorch_tests.py BACKEND DIRECTORY AFTER [PATTERN ...]        as each rank

DIRECTORY is empty and shared by the ranks. All tests whose names come after AFTER run one after another in each rank,
each with a default group of its own. PyTorch skips by backend: here both
backends run what PyTorch runs with gloo. Rank 0 prints a line of JSON for each test: {test, family, outcome, reason},
where outcome is passed, failed, or left out.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import os
import random
import sys
import traceback
import types
import unittest
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

BACKEND, DIRECTORY, AFTER = sys.argv[1:4]
PATTERNS = sys.argv[4:] or ["*"]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Seconds for which a collective of a test may wait, and after which ranks that hang in one are ended.
PATIENCE = 60
# The first that fits.
FAMILIES = {
    "DDP": ("*ddp*", "*DistributedDataParallel*", "*sync_bn*", "*SyncBatchNorm*", "*no_sync*", "*static_graph*"),
    "averaging and optimizers": ("*average*", "*sgd*", "*optimizer*"),
    "groups": ("*group*", "*backend*", "*get_rank*", "*Backend*", "*dump_DDP*"),
    "from one rank to another": ("*send*", "*recv*", "*isend*"),
    "objects": ("*object*",),
    "barriers": ("*barrier*",),
    "collectives": ("*",),
}

os.environ.update(BACKEND="gloo", TEMP_DIR=DIRECTORY, INIT_METHOD="env://")
# PyTorch's test support imports it, for comparisons with texts in files, which no test here makes.
sys.modules["expecttest"] = types.ModuleType("expecttest")
vars(sys.modules["expecttest"])["TestCase"] = unittest.TestCase
del sys.argv[1:]
warnings.simplefilter("ignore")

import amx_cluster_mpi  # noqa: F401  it registers the backend
import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed
from torch.testing._internal.distributed import distributed_test

distributed_test.BACKEND = BACKEND
# The profiler shows no events of a backend that is written in Python.
for backends in (
    distributed_test.PROFILING_SUPPORTED_BACKENDS,
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
):
    backends.remove("mpi")
# In seconds; other work on the machine is not these tests' fault.
distributed_test.Barrier.sync.__func__.__defaults__ = (None, PATIENCE)
# Tests of groups that need fewer ranks than eight ask for that by this.
os.environ["BACKEND"] = "mpi" if SIZE > 3 else "gloo"
SKIPS = {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}


class Tests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """All of them."""

    @property
    def world_size(self) -> Any:
        return SIZE


def run(name: str, number: int, store: Any) -> tuple[str, str]:
    """Run one test; return its outcome on this rank, and the reason unless it passed."""
    test = Tests(name)
    test.rank = RANK  # of a process that is to run the test, not to start others
    test.file_name = f"{DIRECTORY}/{name}"
    distributed_test.Barrier.barrier_id = 1000 * number  # the same on all ranks, whatever became of the last test
    torch.manual_seed(0)  # as in a process that has just been started: ranks expect the same numbers
    random.seed(0)
    printed = io.StringIO()
    outcome, reason = "passed", ""
    dist.init_process_group(
        BACKEND,
        store=dist.PrefixStore(name, store) if BACKEND == "gloo" else None,
        rank=RANK if BACKEND == "gloo" else -1,
        world_size=SIZE if BACKEND == "gloo" else -1,
        timeout=timedelta(seconds=PATIENCE),
    )
    try:
        with contextlib.redirect_stdout(printed):
            getattr(test, name)()
    except unittest.SkipTest as error:
        outcome, reason = "left out", str(error)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
        outcome, reason = ("left out", SKIPS.get(code, "skipped")) if code in (0, *SKIPS) else ("failed", str(code))
    except Exception:
        outcome, reason = "failed", traceback.format_exc()[-3000:]
    store.set(f"{name}/{RANK}", json.dumps([outcome, reason]))
    found = [json.loads(store.get(f"{name}/{rank}")) for rank in range(SIZE)]
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.excepthook = sys.__excepthook__  # which each group puts another one around
    outcome, reason = max(found, key=lambda one: ("passed", "left out", "failed").index(one[0]))
    return outcome, reason


def main() -> None:
    for part in ("barrier", "test_dir", "init_dir"):
        Path(DIRECTORY, part).mkdir(exist_ok=True)
    distributed_test.Barrier.init()
    port = int(os.environ["MASTER_PORT"]) + 1
    store = dist.TCPStore("127.0.0.1", port, SIZE, RANK == 0, timedelta(seconds=3 * PATIENCE))
    names = [name for name in dir(Tests) if name.startswith("test_") and name > AFTER]
    wanted = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in PATTERNS)]
    for number, name in enumerate(wanted):
        if RANK == 0:
            sys.stdout.write(json.dumps({"test": name, "outcome": "begun"}) + "\n")
            sys.stdout.flush()
        outcome, reason = run(name, number, store)
        if RANK == 0:
            family = next(f for f, patterns in FAMILIES.items() if any(fnmatch.fnmatchcase(name, p) for p in patterns))
            sys.stdout.write(json.dumps({"test": name, "family": family, "outcome": outcome, "reason": reason}) + "\n")
            sys.stdout.flush()
    store.set(f"end/{RANK}", "")
    store.wait([f"end/{rank}" for rank in range(SIZE)] if RANK == 0 else [])  # it keeps the store


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # tests leave threads of groups behind
