"""Tensors as MPI sees them: contiguous memory on the CPU, and the MPI type of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from amx_cluster_mpi.library import MPI

# Types that MPI itself can reduce.
REDUCED = {
    torch.float32: MPI.FLOAT,
    torch.float64: MPI.DOUBLE,
    torch.uint8: MPI.UINT8_T,
    torch.int8: MPI.INT8_T,
    torch.int16: MPI.INT16_T,
    torch.int32: MPI.INT32_T,
    torch.int64: MPI.INT64_T,
    torch.bool: MPI.C_BOOL,
    torch.complex64: MPI.C_FLOAT_COMPLEX,
    torch.complex128: MPI.C_DOUBLE_COMPLEX,
}
# What is only moved goes by the size of an element, in bytes.
MOVED = {1: MPI.BYTE, 2: MPI.INT16_T, 4: MPI.INT32_T, 8: MPI.INT64_T, 16: MPI.C_DOUBLE_COMPLEX}
# Elements that a thread of PyTorch computes with alone: above, it starts as many as OMP_NUM_THREADS.
GRAIN = 32768


def checked(tensor: Any, operation: str, is_sparse_allowed: bool = False) -> torch.Tensor:
    """Return the tensor. Raises ValueError where MPI cannot read its memory, and says what to do."""
    if tensor.device.type != "cpu":
        raise ValueError(
            f"{operation}: backend mpi works with CPU tensors, and this one is on {tensor.device}: move it by .cpu()"
        )
    if tensor.layout is not torch.strided and not (is_sparse_allowed and tensor.is_sparse):
        raise ValueError(
            f"{operation}: backend mpi works with dense tensors, and this one is {tensor.layout}: use to_dense(), or "
            "set backend: gloo in the job file"
        )
    return tensor


def moved(tensor: torch.Tensor, world_size: int = 1) -> list[Any]:
    """Return the MPI buffer of a contiguous tensor whose elements are not computed with.

    world_size: how many have an equal part of it each; MPI receives the number of elements of one.
    """
    return [memory(tensor), tensor.numel() // world_size, MOVED[tensor.element_size()]]


def reduced(tensor: torch.Tensor) -> list[Any]:
    """Return the MPI buffer of a contiguous tensor whose elements MPI is to compute with."""
    return [memory(tensor), tensor.numel(), REDUCED[tensor.dtype]]


def in_parts(tensor: torch.Tensor, counts: Sequence[int]) -> list[Any]:
    """Return the MPI buffer of a contiguous tensor of which each rank has, or gets, so many elements in order."""
    offsets = [sum(counts[:rank]) for rank in range(len(counts))]
    return [memory(tensor), (list(counts), offsets), MOVED[tensor.element_size()]]


def memory(tensor: torch.Tensor) -> Any:
    """Return a contiguous tensor's memory, which the tensor must outlive."""
    size = tensor.numel() * tensor.element_size()
    return MPI.memory.fromaddress(tensor.data_ptr(), size) if size else bytearray(1)


class Contiguous:
    """A tensor's elements in one piece, and back again in the tensor's own order where it is in another."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.flat = tensor.detach().contiguous().view(-1)

    def back(self) -> None:
        """Put the elements back into the tensor, unless they are in it."""
        if self.flat.data_ptr() != self.tensor.data_ptr() or not self.tensor.is_contiguous():
            with torch.no_grad():
                self.tensor.copy_(self.flat.view(self.tensor.shape))
