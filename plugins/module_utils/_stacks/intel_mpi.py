# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel MPI out of wheels: where it is in a virtual environment, and the variables that it needs to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def bindings_folder(stack: Mapping[str, Any]) -> str:
    """Return where in a virtual environment the package with oneCCL and Intel MPI is; empty without one.

    stack: an entry of the catalogue with `interpreter`, the hosts' Python.
    """
    if stack["backend"] != "ccl":
        return ""
    return f"lib/python{stack['interpreter']}/site-packages/{stack['bindings']}"


def mpi_environment(env: str, bindings: str = "") -> dict[str, str]:
    """Return the variables that Intel MPI and oneCCL need, as a vendor's setvars.sh would set them.

    env: the path of the virtual environment. bindings: see bindings_folder; their env/setvars.sh (from oneCCL's
    cmake/setvars.sh.in and vars.sh.in) sets CCL_ROOT, I_MPI_ROOT, PATH, LD_LIBRARY_PATH and FI_PROVIDER_PATH. Without
    bindings Intel MPI comes out of the wheel impi-rt. With a wrong FI_PROVIDER_PATH MPI_Init dies with `OFI
    fi_getinfo() failed`, without the library path a script with `libccl.so.1 not found`.
    """
    system = f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if not bindings:
        return {
            "I_MPI_ROOT": env,
            "PATH": system,
            "LD_LIBRARY_PATH": f"{env}/lib",
            "FI_PROVIDER_PATH": f"{env}/lib",
            "FI_PROVIDER": "tcp",
        }
    root = f"{env}/{bindings}"
    return {
        "CCL_ROOT": root,
        "I_MPI_ROOT": root,
        "PATH": f"{root}/bin:{system}",
        "LD_LIBRARY_PATH": f"{root}/lib:{env}/lib",
        "FI_PROVIDER_PATH": f"{root}/lib/prov",
        "FI_PROVIDER": "tcp",
    }
