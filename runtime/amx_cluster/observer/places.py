"""Position of a rank's script by Python's stacks, and whether it waits for other ranks there."""

from __future__ import annotations

import linecache
import sys
import threading
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import MPI

# Where a collective operation of torch is called, and comes back when all ranks have taken part.
COLLECTIVES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/utils.py",
    "torch/distributed/_functional_collectives.py",
    "torch/nn/parallel/distributed.py",
)
# A gradient's part in a collective operation: DistributedDataParallel's and FSDP's run within the backward pass.
BACKWARD = "_engine_run_backward"


def places(frame: Any) -> list[tuple[str, str, int]]:
    """Return (file, function, line) of a frame and its callers, the innermost first, at most eight."""
    positions: list[tuple[str, str, int]] = []
    while frame is not None and len(positions) < 8:
        positions.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return positions


def is_in_mpi(where: list[tuple[str, str, int]]) -> bool:
    """Return whether a thread at these places is in the backend mpi, or waits for another thread there."""
    innermost = next((path for path, _function, _line in where if path != threading.__file__), "")
    return f"/{MPI}/" in innermost


def threads_in_mpi(main: int | None) -> set[int]:
    """Return the threads of this process, as the kernel numbers them, that are in the backend mpi; not the main one."""
    if MPI not in sys.modules:
        return set()
    frames = sys._current_frames()
    return {
        thread.native_id
        for thread in threading.enumerate()
        if thread.ident != main and thread.native_id and is_in_mpi(places(frames.get(thread.ident or 0)))
    }


def ended_in_mpi() -> int:
    """Return how many operations of the backend mpi have ended in this process."""
    return getattr(sys.modules.get(f"{MPI}.activity"), "ended", 0)


def is_in_collective(where: list[tuple[str, str, int]]) -> bool:
    """Return whether a thread at these places is within a collective operation: in torch's call, or in a wait()."""
    if not where:
        return False
    return any(path.endswith(COLLECTIVES) for path, _function, _line in where[:2]) or ".wait(" in linecache.getline(
        where[0][0], where[0][2]
    )


def is_waiting(where: list[tuple[str, str, int]]) -> bool:
    """Return whether a thread at these places that uses no processor waits for other ranks."""
    return (
        is_in_mpi(where)
        or is_in_collective(where)
        or any("torch/distributed/" in path or function == BACKWARD for path, function, _line in where[:4])
    )
