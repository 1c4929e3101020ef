"""Only what some rank has touched travels: a sum of zeros is zero without being sent.

The gradient of a word embedding is zero but for the words of a rank's batch, and it is complete when the backward pass
ends, with nothing left to overlap with: for BERT it is a quarter to half of all bytes. So the ranks of a large sum
first tell each other which blocks are not zero on them, a byte for each KiB. Where half of them or more are zero on all
ranks, only the others are reduced. Where not, this tensor's size is not looked at for a while.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import torch

from amx_cluster_mpi.buffers import GRAIN, reduced
from amx_cluster_mpi.library import MPI

# Bytes of a block, and of a tensor that is looked at.
BLOCK, LARGE = 1 << 10, 4 << 20
# How many sums of as many elements are not looked at after one that was not worth it.
PAUSE = 63
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Touched:
    """The blocks of a contiguous tensor that are not zero on every rank. places: their numbers."""

    def __init__(self, flat: torch.Tensor, places: torch.Tensor) -> None:
        self.rows, self.rest = _blocks(flat)
        self.places = places

    def taken(self) -> torch.Tensor:
        """Return their elements in one piece, and those that make no whole block."""
        elements = self.rows.new_empty(len(self.places) * self.rows.shape[1] + len(self.rest))
        into = elements[: elements.numel() - len(self.rest)].view(-1, self.rows.shape[1])
        for part in self._parts():
            torch.index_select(self.rows, 0, self.places[part], out=into[part])
        elements[elements.numel() - len(self.rest) :] = self.rest
        return elements

    def put_back(self, elements: torch.Tensor) -> None:
        """Put what taken() has returned back into the tensor."""
        blocks = elements[: elements.numel() - len(self.rest)].view(-1, self.rows.shape[1])
        for part in self._parts():
            self.rows.index_copy_(0, self.places[part], blocks[part])
        self.rest.copy_(elements[elements.numel() - len(self.rest) :])

    def _parts(self) -> Iterator[slice]:
        step = GRAIN // self.rows.shape[1]
        return (slice(start, start + step) for start in range(0, len(self.places), step))


def worth_taking(comm: Any, flat: torch.Tensor, pauses: dict[Any, int]) -> Generator[Any, Any, Touched | None]:
    """Yield requests; return the tensor's touched blocks, None where all of it is to be reduced.

    pauses: how many sums are not looked at yet, by communicator, number of elements and type. It is the same on all
    ranks, as all of them call the collectives of a communicator in the same order.
    """
    if comm.size == 1 or not flat.is_floating_point() or flat.numel() * flat.element_size() < LARGE:
        return None
    key = comm.py2f(), flat.numel(), flat.dtype
    if pauses.get(key):
        pauses[key] -= 1
        return None
    rows, _rest = _blocks(flat)
    # Any bit: a zero with a sign is sent, so that all ranks have the same one.
    bits = rows.view(INTEGERS[flat.element_size()])
    marks = torch.empty(len(bits), dtype=torch.uint8)
    step = GRAIN // rows.shape[1]
    for start in range(0, len(bits), step):
        part = bits[start : start + step]
        marks[start : start + step] = part.amax(1).logical_or(part.amin(1))
    yield comm.Iallreduce(MPI.IN_PLACE, reduced(marks), MPI.BOR)
    places = marks.nonzero().view(-1)
    if 2 * len(places) > len(marks):
        pauses[key] = PAUSE
        return None
    return Touched(flat, places)


def _blocks(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the whole blocks as rows, and the elements after them."""
    each = BLOCK // flat.element_size()
    whole = flat.numel() // each * each
    return flat[:whole].view(-1, each), flat[whole:]
