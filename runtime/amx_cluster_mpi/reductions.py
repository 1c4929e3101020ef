"""Reductions over a communicator: which are MPI's own, and in pieces of which size; which are computed here.

MPI reduces large messages slower than the same elements in pieces that stay in a core's cache: see docs/collectives.md
for what was measured. bfloat16 and float16 it cannot reduce: each rank is sent its share of all others' elements,
reduces it in float32, rounds once, and sends it to all. That moves as many bytes as their all_reduce has to. The
reductions are generators of requests, which progress.py goes on with.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from amx_cluster_mpi.buffers import GRAIN, REDUCED, in_parts, memory, moved, reduced
from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.touched import worth_taking

# Bytes of a piece that is reduced at a time.
CHUNK = int(os.environ.get("AMX_CLUSTER_MPI_PIECE", 1 << 20))
# Types that are reduced in float32.
HALVES = (torch.bfloat16, torch.float16)
# Up to so many bytes every rank reduces all elements of these types itself: one exchange instead of two.
SMALL = 1 << 14

# Of each of PyTorch's operations: MPI's, and MPI's for truth values, as PyTorch's operators give them.
OPERATIONS = (
    (ReduceOp.SUM, MPI.SUM, MPI.LOR),
    (ReduceOp.AVG, MPI.SUM, None),
    (ReduceOp.MIN, MPI.MIN, MPI.LAND),
    (ReduceOp.MAX, MPI.MAX, MPI.LOR),
    (ReduceOp.PRODUCT, MPI.PROD, MPI.LAND),
    (ReduceOp.BAND, MPI.BAND, MPI.LAND),
    (ReduceOp.BOR, MPI.BOR, MPI.LOR),
    (ReduceOp.BXOR, MPI.BXOR, MPI.LXOR),
)


def chunks(flat: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the chunks of a tensor that are reduced one after another."""
    step = max(1, CHUNK // flat.element_size())
    return flat.split(step) if flat.numel() > step else (flat,) if flat.numel() else ()


class Reduction:
    """An operation of ReduceOp on elements of one type.

    Raises ValueError where it is none: an average of integers, bits of fractions, an order of complex numbers.
    """

    def __init__(self, operation: Any, dtype: torch.dtype, size: int) -> None:
        native, of_bool = next((row[1:] for row in OPERATIONS if operation == row[0]), (None, None))
        name = getattr(operation, "name", operation)
        if native is None:
            raise ValueError(f"backend mpi does not have the reduction {name}")
        fraction = dtype.is_floating_point or dtype.is_complex
        if (
            (operation == ReduceOp.AVG and not fraction)
            or (native in (MPI.BAND, MPI.BOR, MPI.BXOR) and fraction)
            or (native in (MPI.MIN, MPI.MAX) and dtype.is_complex)
            or (dtype not in HALVES and dtype not in REDUCED)
        ):
            raise ValueError(f"backend mpi cannot reduce {dtype} by {name}")
        self.operation = of_bool if dtype is torch.bool else native
        self.divisor = size if operation == ReduceOp.AVG else 1
        self.here = dtype in HALVES

    def all_reduce(self, comm: Any, flat: torch.Tensor, pauses: dict[Any, int]) -> Iterator[Any]:
        """Reduce the tensor over all ranks, in place. pauses: see touched.py."""
        touched = (yield from worth_taking(comm, flat, pauses)) if self.operation == MPI.SUM else None
        elements = touched.taken() if touched else flat
        for chunk in chunks(elements):
            if self.here:
                yield from self._exchange(comm, chunk)
            else:
                yield comm.Iallreduce(MPI.IN_PLACE, reduced(chunk), self.operation)
        self._average(elements)
        if touched:
            touched.put_back(elements)

    def reduce(self, comm: Any, flat: torch.Tensor, root: int) -> Iterator[Any]:
        """Reduce the tensor over all ranks into the root's; the others' stay as they are."""
        is_root = comm.rank == root
        if self.here:
            rows = flat.new_empty(comm.size, flat.numel()) if is_root else flat.new_empty(0)
            yield comm.Igather(moved(flat), moved(rows, comm.size) if is_root else None, root)
            if is_root:
                self._locally(rows, flat)
        else:
            for chunk in chunks(flat):
                if is_root:
                    yield comm.Ireduce(MPI.IN_PLACE, reduced(chunk), self.operation, root)
                else:
                    yield comm.Ireduce(reduced(chunk), None, self.operation, root)
        if is_root:
            self._average(flat)

    def reduce_scatter(self, comm: Any, source: torch.Tensor, target: torch.Tensor, counts: list[int]) -> Iterator[Any]:
        """Reduce the source over all ranks, and give each rank its part, so many elements in order, into the target."""
        if self.here:
            rows = target.new_empty(comm.size, counts[comm.rank])
            kind = moved(source)[2]
            theirs = [sum(counts[:rank]) for rank in range(comm.size)]
            mine = [counts[comm.rank]] * comm.size
            yield comm.Ialltoallv(
                [memory(source), (counts, theirs), kind],
                [memory(rows), (mine, [rank * mine[0] for rank in range(comm.size)]), kind],
            )
            self._locally(rows, target)
        elif len(set(counts)) == 1:
            # As MPI does, mpi4py counts the elements of one rank here, also of what is sent.
            sent = [memory(source), counts[0], REDUCED[source.dtype]]
            yield comm.Ireduce_scatter_block(sent, reduced(target), self.operation)
        else:
            yield comm.Ireduce_scatter(reduced(source), reduced(target), counts, self.operation)
        self._average(target)

    def _average(self, flat: torch.Tensor) -> None:
        if self.divisor > 1 and not self.here:
            for chunk in flat.split(GRAIN):
                chunk.div_(self.divisor)

    def _exchange(self, comm: Any, flat: torch.Tensor) -> Iterator[Any]:
        """All-reduce elements that MPI cannot compute with."""
        size, count = comm.size, flat.numel()
        if count * flat.element_size() <= SMALL:
            rows = flat.new_empty(size, count)
            yield comm.Iallgather(moved(flat), moved(rows, size))
            self._locally(rows, flat)
            return
        share = -(-count // size)
        counts = [max(0, min(share, count - rank * share)) for rank in range(size)]
        mine = flat.narrow(0, min(comm.rank * share, count), counts[comm.rank])
        reduced_share = mine.clone()
        yield from self.reduce_scatter(comm, flat, reduced_share, counts)
        offsets = [min(rank * share, count) for rank in range(size)]
        yield comm.Iallgatherv(moved(reduced_share), [memory(flat), (counts, offsets), moved(flat)[2]])

    def _locally(self, rows: torch.Tensor, target: torch.Tensor) -> None:
        """Reduce the rows, one of each rank, in float32, rounded once into the target."""
        step = max(1, GRAIN // rows.shape[0])
        flat = target.view(-1)
        for start in range(0, flat.numel(), step):
            part = self._of_rows(rows[:, start : start + step].float())
            flat[start : start + step].copy_(part.div_(self.divisor) if self.divisor > 1 else part)

    def _of_rows(self, rows: torch.Tensor) -> torch.Tensor:
        if self.operation == MPI.SUM:
            return rows.sum(0)
        if self.operation == MPI.PROD:
            return rows.prod(0)
        return rows.amin(0) if self.operation == MPI.MIN else rows.amax(0)


reduction_of = functools.lru_cache(maxsize=256)(Reduction)


def add_sparse(comm: Any, tensor: torch.Tensor) -> Iterator[Any]:
    """Sum a sparse tensor (COO) over all ranks, in place: each has other elements, and is sent those of all."""
    mine = tensor.detach().coalesce()
    # A column of indices, and what is there, of each element.
    indices, values = mine.indices().t().contiguous(), mine.values().contiguous()
    own, counts = torch.tensor([len(values)]), torch.empty(comm.size, dtype=torch.int64)
    yield comm.Iallgather(moved(own), moved(counts, comm.size))
    lengths = counts.tolist()
    gathered = []
    for part in (indices, values):
        row = part[0].numel() if len(part) else part.shape[1:].numel()
        all_of_them = part.new_empty(sum(lengths), *part.shape[1:])
        yield comm.Iallgatherv(moved(part), in_parts(all_of_them, [length * row for length in lengths]))
        gathered.append(all_of_them)
    total = torch.sparse_coo_tensor(gathered[0].t(), gathered[1], tensor.shape)
    with torch.no_grad():
        tensor.copy_(total.coalesce())
