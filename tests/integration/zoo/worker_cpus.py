"""OpenMP binds the main thread of a rank to one CPU: what the rank starts has all of its CPUs all the same.

Workers of DataLoaders by fork, spawn and forkserver, which compute for longer than a job may stall, a pool, other
programs. What chooses its CPUs itself keeps them.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

CPUS = os.sched_getaffinity(0)

import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset

SECONDS = 7
SHOWS = "import os; print(*sorted(os.sched_getaffinity(0)))"
# A program that binds itself, and one that it starts.
BINDS = f"""
import os, subprocess, sys
os.sched_setaffinity(0, [{min(CPUS)}])
subprocess.run([sys.executable, "-c", {SHOWS!r}])
"""


class Places(Dataset):
    """Takes long to compute, without a pause, where it is computed."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _place: int) -> list[int]:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pass
        return sorted(os.sched_getaffinity(0))


def of_process(_number: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))


def printed(*command: str) -> list[int]:
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return [int(cpu) for cpu in ran.stdout.split()]


def main() -> None:
    distributed.init_process_group()  # the job's backend
    torch.ones(1000, 1000) @ torch.ones(1000, 1000)  # from now on there are OpenMP's threads
    python = sys.executable
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    bound = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))
    assert bound.isdigit(), f"OpenMP has not bound the main thread: {bound}"
    found = {"itself": sorted(os.sched_getaffinity(0)), "a program": printed(python, "-c", SHOWS)}
    found["a program of a program"] = printed("sh", "-c", f"'{python}' -c '{SHOWS}'; true")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*suggested max number of worker")
        DataLoader(Places(), num_workers=len(CPUS))
    for kind in ("fork", "spawn", "forkserver"):
        (found[f"a worker by {kind}"],) = DataLoader(Places(), None, num_workers=1, multiprocessing_context=kind)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found["a pool"],) = pool.map(of_process, [1])
    assert {name: cpus for name, cpus in found.items() if cpus != sorted(CPUS)} == {}
    last = str(max(CPUS))
    chosen = {
        "bound by taskset": printed("taskset", "-c", last, python, "-c", SHOWS) == [max(CPUS)],
        "bound by itself": printed(python, "-c", BINDS) == [min(CPUS)],
    }
    assert all(chosen.values()), chosen
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"processes": len(found) + len(chosen)}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
