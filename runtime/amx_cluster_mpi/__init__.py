"""A backend `mpi` of torch.distributed for stock PyTorch: collectives of CPU tensors by the launcher's MPI.

    import amx_cluster_mpi          before torch.distributed.init_process_group("mpi")

PyTorch's wheels are built without MPI, and leave its place empty: `Backend.MPI` is there, `is_mpi_available()` is
False, and the class ProcessGroupMPI is missing (torch 2.13, torch/distributed/distributed_c10d.py). This package fills
that place in Python, with mpi4py. So torch, accelerate and transformers take `mpi` as they would in a build that has
it; `Backend.register_backend` refuses no name, but what it registers as `mpi` is never asked for.

MPI itself is loaded when the first group is made, and not before: importing this costs a process nothing that needs no
group.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import os
import sys
import warnings
from typing import Any

# The timeout of the group that is being made: torch does not pass it on to an MPI backend.
TIMEOUT: contextvars.ContextVar[Any] = contextvars.ContextVar("timeout", default=None)

# The store of this process, kept when groups are destroyed: its port is in use as long as another rank has it. Then a
# part of it for each time that the group of all ranks was made.
STORES: list[Any] = []


class ProcessGroupMPI:
    """Process group of torch.distributed over MPI."""

    @staticmethod
    def create(ranks: list[int]) -> Any:
        """Return the group of these ranks, of all where there are none in the list. Raises RuntimeError."""
        return importlib.import_module("amx_cluster_mpi.group").create(ranks, TIMEOUT.get())


def store_of_all(c10d: Any, timeout: Any) -> Any:
    """Return the store that the launcher's variables tell of, None without them.

    MPI needs none, and torch gives it none; groups of other backends beside it, which libraries make, do.
    """
    if not {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"} <= os.environ.keys():
        return None
    if not STORES:
        STORES.append(next(c10d.rendezvous("env://", timeout=timeout))[0])
    STORES.append(c10d.PrefixStore(f"default_pg_{len(STORES)}", STORES[0]))
    return STORES[-1]


def register(c10d: Any) -> None:
    """Put the backend into its place in the module torch.distributed.distributed_c10d."""
    if isinstance(getattr(c10d, "ProcessGroupMPI", None), type) and c10d._MPI_AVAILABLE:
        return  # this build of torch has its own, or this was called before
    c10d._MPI_AVAILABLE = True
    c10d.ProcessGroupMPI = ProcessGroupMPI
    # What init_process_group takes for tensors on the CPU where a script names no backend.
    c10d.Backend.default_device_backend_map["cpu"] = c10d.Backend.MPI
    make, monitored = c10d._new_process_group_helper, c10d.monitored_barrier

    @functools.wraps(make)
    def _new_process_group_helper(
        size: int, rank: int, ranks: Any, backend: Any, store: Any, *args: Any, **kwargs: Any
    ) -> Any:
        token = TIMEOUT.set(kwargs.get("timeout"))
        try:
            if backend == c10d.Backend.MPI and size == -1:
                store = store_of_all(c10d, kwargs.get("timeout")) or store
            return make(size, rank, ranks, backend, store, *args, **kwargs)
        finally:
            TIMEOUT.reset(token)

    @functools.wraps(monitored)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
        if c10d._rank_not_in_group(group) or c10d.get_backend(group) != c10d.Backend.MPI:
            return monitored(group, timeout, wait_all_ranks)
        return (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks)

    c10d._new_process_group_helper, c10d.monitored_barrier = _new_process_group_helper, monitored_barrier
    if hasattr(sys.modules.get("torch.distributed"), "monitored_barrier"):  # which is not complete yet otherwise
        sys.modules["torch.distributed"].monitored_barrier = monitored_barrier  # type: ignore[attr-defined]
    # Said of every rank that accelerate starts: it passes on what the launcher has set, which is the same.
    warnings.filterwarnings("ignore", message="For MPI backend, world_size")


_c10d = sys.modules.get("torch.distributed.distributed_c10d")
if _c10d is None:
    _c10d = importlib.import_module("torch.distributed.distributed_c10d")
if hasattr(_c10d, "init_process_group"):
    register(_c10d)
