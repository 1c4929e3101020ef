"""TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective, do all ranks call the same one, with tensors of one kind?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed import DebugLevel, get_debug_level

from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.watchdog import Call

# Bytes in which a rank says what it calls.
LENGTH = 512


def is_wanted() -> bool:
    """Return whether collectives are to be compared."""
    return bool(get_debug_level() == DebugLevel.DETAIL)


def check(comm: Any, call: Call, tensors: Sequence[torch.Tensor], detail: Any) -> Iterator[Any]:
    """Compare what this rank is about to call with what the others are. Raises RuntimeError that tells who differs."""
    kinds = ", ".join(f"{str(tensor.dtype)[6:]}{list(tensor.shape)}" for tensor in tensors[:8])
    mine = f"{call.name} {words(detail)} {kinds}".encode()[:LENGTH]
    sent, received = bytearray(mine.ljust(LENGTH)), bytearray(LENGTH * comm.size)
    yield comm.Iallgather([sent, MPI.BYTE], [received, MPI.BYTE])
    reported = [bytes(received[place : place + LENGTH]).decode().strip() for place in range(0, len(received), LENGTH)]
    if len(set(reported)) > 1:
        lines = "\n".join(f"  rank {rank}: {words}" for rank, words in zip(call.ranks, reported))
        raise RuntimeError(f"ranks call different collectives, number {call.number} of their group:\n{lines}")


def words(detail: Any) -> str:
    """Return what a collective has besides its tensors in words: a reduction, a rank, both."""
    if isinstance(detail, tuple):
        return " ".join(map(words, detail))
    return f"rank {detail}" if isinstance(detail, int) else str(getattr(detail, "name", detail))
