# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel MPI out of wheels: where it is in a virtual environment, and the variables that it needs to run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What is kept of what env/setvars.sh of the bindings sets.
KEPT = re.compile(r"PATH|LD_LIBRARY_PATH|(CCL|I_MPI|FI)_\w+")


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
    cmake/setvars.sh.in and vars.sh.in) sets CCL_ROOT, I_MPI_ROOT, PATH, LD_LIBRARY_PATH and FI_PROVIDER_PATH, up to
    version 2.2 to what is returned here; see sourced for later ones. Without bindings Intel MPI comes out of the wheel
    impi-rt. With a wrong FI_PROVIDER_PATH MPI_Init dies with `OFI fi_getinfo() failed`, without the library path a
    script with `libccl.so.1 not found`.
    """
    system = _system_path(env)
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


def sourced(env: Path, bindings: str) -> dict[str, str]:
    """Return the variables that Intel MPI and oneCCL need, as env/setvars.sh of the bindings itself sets them here.

    Since version 2.3 of the bindings Intel MPI is in their opt/mpi, before beside their bin and lib. Where they have no
    such script, or bash does not run, what mpi_environment returns. env, bindings: as there.
    """
    usual = mpi_environment(str(env), bindings)
    script = env / bindings / "env" / "setvars.sh"
    before = {"PATH": _system_path(str(env)), "LD_LIBRARY_PATH": f"{env}/lib"}
    if not script.is_file():
        return usual
    try:
        ran = subprocess.run(
            ["bash", "--norc", "-c", 'source "$1" >/dev/null 2>&1 </dev/null; env -0', "bash", str(script)],
            env=before,
            cwd=script.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return usual
    after = dict(line.split("=", 1) for line in ran.stdout.split("\0") if "=" in line)
    found = {
        name: _listed(value) if name.endswith("PATH") else value
        for name, value in sorted(after.items())
        if KEPT.fullmatch(name)
    }
    if found.items() <= before.items():
        return usual
    return {"CCL_ROOT": usual["CCL_ROOT"], **before, **found, "FI_PROVIDER": usual["FI_PROVIDER"]}


def _system_path(env: str) -> str:
    return f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _listed(value: str) -> str:
    """A list of directories without those that are empty, which would be the current one, or repeated."""
    return ":".join(dict.fromkeys(filter(None, value.split(":"))))
