"""The MPI library, loaded but neither initialized nor ended by mpi4py: both are up to runtime.py."""

from __future__ import annotations

try:
    import mpi4py

    mpi4py.rc(initialize=False, finalize=False)
    from mpi4py import MPI
except ModuleNotFoundError:
    raise RuntimeError(
        "backend mpi needs mpi4py, which this Python does not have: run site.yml again, or set backend: gloo in the "
        "job file"
    ) from None
except (ImportError, RuntimeError) as error:
    raise RuntimeError(
        f"backend mpi: mpi4py finds no MPI library ({error}): start the script with launch.sh, or put the virtual "
        "environment's lib first on LD_LIBRARY_PATH"
    ) from None

__all__ = ["MPI"]
