"""Measure collectives of torch.distributed by backend and size, as ranks of a job or under any mpirun.

    measure_collectives.py [--backends mpi gloo] [--operations all_reduce ...] [--sizes 4096 ...] [--repeats 9]

Backends take turns at each size, in one run: what else the machine does falls on all alike. Rank 0 prints a table of
medians over the repeats of the slowest rank's time, in ms, and a line of JSON: {"ranks", "hosts", "rows": [{operation,
bytes (of a rank's tensor), BACKEND: ms}]}.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

SIZES = (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 23, 25 << 20, 1 << 26, 1 << 28)
OPERATIONS = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "all_to_all")


def prepared(operation: str, size: int, group: Any) -> Callable[[], Any]:
    """Return the call of a collective on tensors of so many bytes of float32."""
    ranks = dist.get_world_size()
    count = max(size // 4 // ranks, 1) * ranks
    whole, part = torch.ones(count), torch.ones(count // ranks)
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "reduce": lambda: dist.reduce(whole, 0, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(whole), whole, group=group),
    }
    return calls[operation]


def slowest(seconds: float) -> float:
    """Return the largest of all ranks' times."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return float(longest.item())


def measure(operation: str, size: int, groups: dict[str, Any], repeats: int) -> dict[str, float]:
    """Return {backend: ms} of one collective."""
    calls = {name: prepared(operation, size, group) for name, group in groups.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    inner = max(1, min(50, (1 << 18) // size))
    for turn in range(repeats + 1):
        for name, call in calls.items():
            dist.barrier()
            began = time.perf_counter()
            for _call in range(inner):
                call()
            took = slowest(time.perf_counter() - began) / inner
            if turn:  # the first of each is warm-up
                times[name].append(took * 1000)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=["mpi", "gloo"])
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    if "mpi" in options.backends and not dist.is_mpi_available():
        import amx_cluster_mpi  # noqa: F401  not started as a rank of a job
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in options.backends}
    hosts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, os.environ.get("AMX_CLUSTER_HOST") or socket.gethostname())
    rows = []
    for operation in options.operations:
        for size in options.sizes:
            rows.append({"operation": operation, "bytes": size, **measure(operation, size, groups, options.repeats)})
            if dist.get_rank() == 0:
                show(rows[-1], options.backends, first=len(rows) == 1)
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps({"ranks": len(hosts), "hosts": len(set(hosts)), "rows": rows}) + "\n")
    dist.destroy_process_group()


def show(row: dict[str, Any], backends: list[str], first: bool) -> None:
    """Print a line of the table."""
    if first:
        sys.stdout.write("".join(f"{name:>14}" for name in ("operation", "bytes", *backends)) + "  (ms)\n")
    sys.stdout.write(f"{row['operation']:>14}{row['bytes']:>14}" + "".join(f"{row[name]:14.3f}" for name in backends))
    ratio = f"   {row[backends[0]] / row[backends[1]]:.2f}\n" if len(backends) == 2 else "\n"
    sys.stdout.write(ratio)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
