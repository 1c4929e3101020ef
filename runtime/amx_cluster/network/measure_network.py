"""A job's script that measures the network as ranks use it: every pair of hosts, then the job's collectives.

    measure_network.py --largest BYTES --seconds S

Pairs: rank 0 of each host sends to that of another and back, all pairs of a round at the same time, over MPI where the
ranks were started by mpirun, else over gloo. Ranks without a partner sleep. Collectives: torch.distributed's over all
ranks, with the job's backend. Sizes grow until the time is used up; what is left out is written down. Rank 0 writes
output/measured.json: {transport, provider, ranks, pairs, collectives, left_out, imb}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from ansible_collections.amx.cluster.plugins.module_utils._measure.network import tournament

OPERATIONS = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "all_to_all")
SMALLEST = 4096
# The sizes of collectives: the bucket of DistributedDataParallel is among them.
SIZES = (SMALLEST, 1 << 16, 1 << 20, 1 << 22, 25 << 20, 1 << 26, 1 << 28)
# Of a message between two hosts. The last is large enough that TCP reaches its full speed.
MESSAGES = (1 << 16, 1 << 20, 1 << 22, 1 << 24)
# Up to this size, collectives are always measured.
LINEAR = 1 << 20
PINGS, BATCHES = 20, 5
REPEATS = 5
# How long a rank polls for a message before it sleeps between two looks: longer than a message of 8 bytes takes.
SPIN_SECONDS, NAP_SECONDS = 100e-6, 20e-6
# How often every pair is measured, with the others in between: what else a host does rarely falls on a pair each time.
PASSES = 3
FEWEST = 3
# Parts of the time: pairs, collectives; the rest is for IMB-MPI1.
FOR_PAIRS, FOR_COLLECTIVES = 0.3, 0.4


class MpiLink:
    """Messages between two ranks, over MPI."""

    name = "mpi"

    def __init__(self) -> None:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=False)
        from mpi4py import MPI

        self.owns = not MPI.Is_initialized()
        if self.owns:
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
        self.mpi = MPI
        self.comm = MPI.COMM_WORLD.Dup()

    def send(self, data: np.ndarray, peer: int) -> None:
        self.wait(self.comm.Isend([data, self.mpi.BYTE], peer))

    def receive(self, data: np.ndarray, peer: int) -> None:
        self.wait(self.comm.Irecv([data, self.mpi.BYTE], peer))

    def wait(self, request: Any) -> None:
        """Wait as MPI does, but give the core away after a moment: the peer may need it, where hosts share cores."""
        end = time.perf_counter() + SPIN_SECONDS
        while not request.Test():
            if time.perf_counter() > end:
                time.sleep(NAP_SECONDS)

    def close(self) -> None:
        self.comm.Free()
        if self.owns:
            self.mpi.Finalize()


class GlooLink:
    """Messages between two ranks, over gloo."""

    name = "gloo"

    def __init__(self, group: Any) -> None:
        self.group = group

    def send(self, data: np.ndarray, peer: int) -> None:
        dist.send(torch.from_numpy(data), peer, group=self.group)

    def receive(self, data: np.ndarray, peer: int) -> None:
        dist.recv(torch.from_numpy(data), peer, group=self.group)

    def close(self) -> None:
        pass


Link = Any


def choose_link(group: Any) -> tuple[Link, str]:
    """Return the link of this rank, and why it is not MPI's. All ranks take the same."""
    why = "" if "PMI_SIZE" in os.environ else "the ranks were not started by mpirun"
    if not why:
        try:
            import mpi4py  # noqa: F401
        except ImportError:
            why = "the virtual environment has no mpi4py"
    reasons: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(reasons, why, group=group)
    why = next((reason for reason in reasons if reason), "")
    return (GlooLink(group) if why else MpiLink()), why


def half_trip(link: Link, data: np.ndarray, peer: int, leads: bool, times: int) -> float:
    """Send data there and back so often, and return the seconds of one way; both ranks call this."""
    began = time.perf_counter()
    for _time in range(times):
        if leads:
            link.send(data, peer)
            link.receive(data, peer)
        else:
            link.receive(data, peer)
            link.send(data, peer)
    return (time.perf_counter() - began) / times / 2


def agreed(link: Link, peer: int, leads: bool, value: int) -> int:
    """Return what the rank that leads says."""
    number = np.array([value], dtype=np.int64).view(np.uint8)
    if leads:
        link.send(number, peer)
    else:
        link.receive(number, peer)
    return int(number.view(np.int64)[0])


def measure_pair(link: Link, peer: int, leads: bool, largest: int, seconds: float) -> dict[str, Any]:
    """Return latency (µs) and bandwidth (MB/s) with a peer, which calls this too; the larger message, the better.

    A message is as large as fits into the time, which is estimated from the smaller ones.
    """
    end = time.monotonic() + seconds
    small: Any = np.zeros(8, dtype=np.uint8)
    half_trip(link, small, peer, leads, PINGS)
    latency = statistics.median(half_trip(link, small, peer, leads, PINGS) for _batch in range(BATCHES))
    took, before = latency, 8
    figures: dict[str, Any] = {}
    for size in [size for size in MESSAGES if size <= max(largest, MESSAGES[0])]:
        estimate = 2 * took * (size / before if before > 8 else 1)  # seconds there and back
        room = end - time.monotonic()
        repeats = min(REPEATS, int(room / max(estimate, 1e-9)) - 1)
        repeats = agreed(link, peer, leads, REPEATS if size == MESSAGES[0] else repeats)
        if repeats < FEWEST:
            break
        data: Any = np.zeros(size, dtype=np.uint8)
        half_trip(link, data, peer, leads, 1)
        took = statistics.median(half_trip(link, data, peer, leads, 1) for _repeat in range(repeats))
        before = size
        figures = {"bytes": size, "bandwidth_mbyte_s": round(size / took / 1e6, 2)}
    return {"latency_us": round(latency * 1e6, 2), **figures}


def measure_pairs(
    link: Link, group: Any, hosts: list[str], names: list[str], largest: int, seconds: float
) -> list[dict[str, Any]]:
    """Return every pair of hosts, measured by the first rank of each. names: of all ranks' hosts."""
    leaders = [names.index(host) for host in hosts]
    rounds = tournament(len(hosts)) * PASSES
    mine: dict[tuple[str, str], dict[str, Any]] = {}
    for pairs in rounds:
        dist.monitored_barrier(group)  # of gloo: who waits here sleeps
        for first, other in pairs:
            rank = dist.get_rank()
            if rank not in (leaders[first], leaders[other]):
                continue
            leads = rank == leaders[first]
            peer = leaders[other] if leads else leaders[first]
            key = hosts[first], hosts[other]
            try:
                figures = measure_pair(link, peer, leads, largest, seconds / len(rounds))
            except Exception as error:  # of MPI or gloo: the other pairs go on
                mine[key] = {"failed": str(error).splitlines()[0] if str(error) else type(error).__name__}
            else:
                mine[key] = joined(mine.get(key), figures) if leads else {}
    dist.monitored_barrier(group)
    everyones: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine, group=group)
    return [
        pair(key, [of[key] for of in everyones if key in of])
        for key in dict.fromkeys(k for of in everyones for k in of)
    ]


def joined(earlier: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Return the better figures of two meetings: other load on the hosts only makes them worse; and those of each."""
    if earlier and "failed" in earlier:
        return earlier
    measured = [earlier, other] if earlier else [other]
    fastest = max(measured, key=lambda figures: figures["bandwidth_mbyte_s"])
    meetings = [*(earlier["meetings_mbyte_s"] if earlier else []), other["bandwidth_mbyte_s"]]
    latency = min(figures["latency_us"] for figures in measured)
    return {**fastest, "latency_us": latency, "meetings_mbyte_s": meetings}


def pair(key: tuple[str, str], reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a pair from what its two ranks have found: {hosts, latency_us, bandwidth_mbyte_s, state, reason, ...}."""
    blank = {"hosts": list(key), "latency_us": None, "bandwidth_mbyte_s": None, "meetings_mbyte_s": []}
    for report in reports:
        if "failed" in report:
            return {**blank, "state": "failed", "reason": report["failed"]}
    return {**blank, **next(report for report in reports if report), "state": "measured", "reason": ""}


def prepared(operation: str, size: int) -> Callable[[], Any]:
    """Return the call of a collective of the default group on tensors of so many bytes of float32."""
    ranks = dist.get_world_size()
    count = max(size // 4 // ranks, 1) * ranks
    if operation in ("all_reduce", "broadcast", "reduce"):
        whole = torch.ones(count)
        return {
            "all_reduce": lambda: dist.all_reduce(whole),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "reduce": lambda: dist.reduce(whole, 0),
        }[operation]
    whole, part = torch.ones(count), torch.ones(count // ranks)
    if operation == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    out = torch.empty_like(whole)
    return lambda: dist.all_to_all_single(out, whole)


def slowest(seconds: float, group: Any) -> float:
    """Return the largest of all ranks' times."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
    return float(longest.item())


def timed(call: Callable[[], Any], group: Any, inner: int) -> float:
    """Return the seconds of one call, the slowest rank's mean over so many."""
    dist.barrier(group)
    began = time.perf_counter()
    for _call in range(inner):
        call()
    return slowest(time.perf_counter() - began, group) / inner


def measure_collectives(group: Any, largest: int, seconds: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Return each operation and size that fits into the time, {operation, bytes, ranks, microseconds, low, high}.

    Also what was left out, and why. All ranks decide alike: by times that they have agreed on.
    """
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    # all_reduce is what training does most, and what is predicted from: it may take as long as two others.
    share = seconds / (len(OPERATIONS) + 1)
    for operation in OPERATIONS:
        room, used, fastest, before = share * (2 if operation == "all_reduce" else 1), 0.0, 0.0, 0
        for size in [size for size in SIZES if size <= largest]:
            began = time.monotonic()
            # Below that size, time hardly grows with it.
            estimate = fastest * (size / before if before >= LINEAR else 2)
            if size > LINEAR and used + (2 + FEWEST) * estimate > room:
                left_out.append(
                    f"{operation} from {size} bytes on: a call of {estimate:.2g} s is too long for the time"
                )
                break
            call = prepared(operation, size)
            problem = ""
            try:
                call()
            except (RuntimeError, NotImplementedError, ValueError) as error:
                problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            if problem:
                left_out.append(f"{operation}: backend {dist.get_backend()} does not do it here ({problem})")
                break
            first = timed(call, group, 1)
            inner = max(1, min(20, int(0.005 / first)))
            repeats = max(FEWEST, min(REPEATS, int((room - used) / 2 / max(first * inner, 1e-9))))
            times = [timed(call, group, inner) for _repeat in range(repeats)]
            fastest, before = min(times), size
            used += slowest(time.monotonic() - began, group)
            row = {"operation": operation, "bytes": size, "ranks": dist.get_world_size()}
            summary = {"microseconds": statistics.median(times), "low": min(times), "high": max(times)}
            rows.append({**row, **{name: round(value * 1e6, 1) for name, value in summary.items()}})
    return rows, left_out


def imb(rows: list[dict[str, Any]], largest: int, seconds: float) -> dict[str, Any]:
    """Return the sizes for IMB-MPI1 and seconds for each of them, or the reason why it is left out."""
    if "PMI_SIZE" not in os.environ:
        return {"reason": "the job's ranks were not started by mpirun"}
    if not Path(sys.executable).with_name("IMB-MPI1").exists():
        return {"reason": f"{Path(sys.executable).parent} has no IMB-MPI1 (package impi-rt)"}
    if dist.get_world_size() < 2:
        return {"reason": "there is one rank"}
    # Estimated from torch.distributed at the same size; IMB-MPI1 calls each at least twice and warms up before.
    calls, used = 4, 0.0
    sizes: list[int] = []
    for size in [size for size in SIZES if size <= largest]:
        times = [row["low"] / 1e6 for row in rows if row["bytes"] == size]
        used += calls * max(times, default=seconds) * len(OPERATIONS)
        if size > LINEAR and used > seconds:
            break
        sizes.append(size)
    return {"sizes": sizes, "seconds": round(max(0.5, seconds / len(OPERATIONS) / max(1, len(sizes))), 2)}


def fits(wanted: int) -> int:
    """Return the largest size of a tensor, at most the wanted one, with which a rank stays within its memory.

    A collective has up to four such tensors: input, output, and what the backend copies.
    """
    free = 0
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as stream:
        free = next(int(line.split()[1]) * 1024 for line in stream if line.startswith("MemAvailable"))
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(SMALLEST, min(wanted, free // ranks // 8)) if free else wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    os.umask(0o077)
    # The names of collectives that every stack's torch has are old ones to the newest.
    warnings.filterwarnings("ignore", category=FutureWarning)
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    dist.init_process_group(plan["backend"], timeout=timedelta(minutes=5))
    group = dist.new_group(backend="gloo", timeout=timedelta(minutes=5))
    link, why_gloo = choose_link(group)
    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.environ["AMX_CLUSTER_HOST"], group=group)
    hosts = list(dict.fromkeys(names))
    memory: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(memory, fits(options.largest), group=group)
    largest = min(memory)
    pairs = measure_pairs(link, group, hosts, names, largest, FOR_PAIRS * options.seconds)
    link.close()
    rows, left_out = measure_collectives(group, largest, FOR_COLLECTIVES * options.seconds)
    if largest < options.largest:
        left_out.append(f"sizes above {largest} bytes: a rank has too little memory")
    if len(hosts) < 2:
        left_out.append("pairs: there is one host")
    if why_gloo:
        left_out.append(f"pairs over MPI: {why_gloo}; they were measured over gloo")
    if dist.get_rank() == 0:
        measured = {
            "transport": link.name,
            "provider": os.environ.get("FI_PROVIDER", "tcp") if link.name == "mpi" else "tcp",
            "backend": plan["backend"],
            "ranks": len(names),
            "pairs": pairs,
            "collectives": [{"tool": "torch", "backend": plan["backend"], **row} for row in rows],
            "left_out": left_out,
            "imb": imb(rows, largest, (1 - FOR_PAIRS - FOR_COLLECTIVES) * options.seconds),
        }
        Path("output").mkdir(exist_ok=True)
        Path("output/measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    dist.barrier(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
