"""One rank of the exchange between every pair of hosts: exchange.sh starts it once on each host, by mpirun.

    python RUNTIME exchange        in the job directory

Prints lines of LINE of the module exchange and JSON:

    {"pair": [rank, rank], "microseconds", "error"}    how a pair got on: of the first of both, or of who saw an error
    {"pair": [rank, rank], "waits": [rank, rank]}      a pair not tested, because the one rank waits for the other
    {"missing"}                                        what the exchange could not run without

A pair has until the end of its round, and rounds end at the same time everywhere, so that one that fails makes no other
one fail. A rank that MPI keeps within a call, as it does while a connection does not come about, meets nobody any more.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.exchange import LINE, PAIR, rounds

# Bytes of a message that no provider sends at once, and round trips whose median is the latency.
LARGE, TRIPS = 1 << 20, 100
NO_ANSWER = f"no answer within {PAIR} s"
# Seconds after the end of a round when a thread is taken for kept within MPI, and seconds to wait to be ended.
LATE, FOREVER = 0.5, 86400


def tell(**values: Any) -> None:
    """Print a line that is evaluated; in one write, so that lines of ranks do not mix."""
    sys.stdout.write(LINE + json.dumps(values) + "\n")
    sys.stdout.flush()


def swap(world: Any, other: int, tag: int, message: bytes, size: int, deadline: float) -> bytes:
    """Send a message to another rank and return the one of `size` bytes that it sends. Raises TimeoutError."""
    buffer = bytearray(size)
    requests = [world.Irecv(buffer, source=other, tag=tag), world.Isend(message, dest=other, tag=tag)]
    while not all(request.Test() for request in requests):
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(buffer)


def exchange_with(world: Any, me: int, other: int, number: int, deadline: float) -> float:
    """Exchange messages with another rank; return for how many microseconds each waits for a small one of the other.

    Raises TimeoutError, ValueError when another message arrives than was sent, and what MPI raises.
    """
    tag = 10 * number
    hello = swap(world, other, tag, struct.pack("ii", me, number), 8, deadline)
    if hello != struct.pack("ii", other, number):
        raise ValueError("another message arrived than was sent")
    large = swap(world, other, tag + 1, bytes([me % 251]) * LARGE, LARGE, deadline)
    if large != bytes([other % 251]) * LARGE:
        raise ValueError(f"a message of {LARGE} bytes arrived damaged")
    taken = []
    for _trip in range(TRIPS):
        begun = time.perf_counter()
        swap(world, other, tag + 2, hello, 8, deadline)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1e6


class Guard(threading.Thread):
    """Speaks for the main thread when MPI keeps it within a call after the end of a round."""

    def __init__(self, me: int) -> None:
        super().__init__(daemon=True)
        self.me = me
        self.lock = threading.Lock()
        self.deadline = float("inf")
        # The pair that meets, and those of this rank that will.
        self.pairs: list[tuple[int, int]] = []

    def watch(self, pairs: list[tuple[int, int]], deadline: float) -> None:
        """Watch the first of the pairs; none, when all have met. Does not return once it has spoken for this rank."""
        with self.lock:
            self.pairs, self.deadline = pairs, deadline

    def run(self) -> None:
        while True:
            time.sleep(0.1)
            with self.lock:
                if time.monotonic() > self.deadline + LATE:
                    first, *later = self.pairs
                    tell(pair=first, microseconds=None, error=NO_ANSWER)
                    for pair in later:
                        tell(pair=pair, waits=[self.me, first[0] + first[1] - self.me])
                    time.sleep(FOREVER)


def main(_words: Sequence[str] = ()) -> None:
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    # The variables with which the ranks of the job call MPI_Init on this host.
    os.environ.update(plan["hosts"][int(os.environ["PMI_RANK"])]["env"])
    try:
        from mpi4py import MPI
    except ImportError as error:
        tell(missing=f"mpi4py cannot be imported ({error})")
        return
    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    me = world.Get_rank()
    begun, failed = time.monotonic(), False
    mine = [(number, pair) for number, pairs in enumerate(rounds(world.Get_size())) for pair in pairs if me in pair]
    guard = Guard(me)
    guard.start()
    for place, (number, pair) in enumerate(mine):
        deadline = begun + PAIR * (number + 1)
        guard.watch([later for _number, later in mine[place:]], deadline)
        try:
            taken = exchange_with(world, me, pair[0] + pair[1] - me, number, deadline)
        except TimeoutError:
            failed = True
            tell(pair=pair, microseconds=None, error=NO_ANSWER)
        except (ValueError, MPI.Exception) as error:
            failed = True
            tell(pair=pair, microseconds=None, error=" ".join(str(error).split()))
        else:
            if me == pair[0]:
                tell(pair=pair, microseconds=round(taken, 2), error="")
    guard.watch([], float("inf"))
    if failed:
        time.sleep(FOREVER)  # MPI would wait for messages that do not come; mpirun is ended when all pairs have met
