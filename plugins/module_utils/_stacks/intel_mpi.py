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
# The backends of torch.distributed that exchange tensors through MPI, and so through libfabric.
MPI_BACKENDS = ("ccl", "mpi")


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


def libfabric_of_bindings(env: str, bindings: str) -> dict[str, str]:
    """Return the variables with which oneCCL finds libfabric without mpirun and without env/setvars.sh of the bindings.

    env, bindings: see mpi_environment. The layout is that since version 2.3 of the bindings. Without these paths oneCCL
    2021.14 ends with `could not initialize any transport library`; without FI_PROVIDER it takes shm between hosts.
    """
    root = f"{env}/{bindings}"
    return {
        "LD_LIBRARY_PATH": f"{root}/opt/mpi/libfabric/lib:{root}/opt/mpi/lib:{root}/lib:{env}/lib",
        "FI_PROVIDER_PATH": f"{root}/opt/mpi/libfabric/lib/prov",
        "FI_PROVIDER": "tcp",
    }


def fabric_environment(fabric: str, backend: str) -> dict[str, str]:
    """Return the variables with which Intel MPI uses a fabric, besides those of mpi_environment; none for tcp.

    fabric: tcp, or one of fabrics.FABRICS. backend: the job's.

    FI_PROVIDER is the provider (Intel MPI Library Developer Guide, OFI Providers Support). Checked with libfabric of
    impi-rt 2021.18: it lets utility providers through, so that verbs is not "verbs;ofi_rxm", which matches nothing.
    I_MPI_OFI_PROVIDER is the same (`impi_info -v I_MPI_OFI_PROVIDER`); without it that libfabric skips a provider while
    it finds a better one. I_MPI_FABRICS=shm:ofi, ranks of one host through shared memory, is the default that this
    states (Developer Reference, Communication Fabrics Control); it is left out for ccl, because the multiple endpoints
    mode that its workers may use knows ofi only.

    Data loaders fork: efa would end the job then, unless FI_EFA_FORK_SAFE is set or the kernel is 5.13 or newer (a
    message in libefa-fi.so); verbs requires IBV_FORK_SAFE, and RDMAV_HUGEPAGES_SAFE where there are huge pages
    (fi_verbs(7)). PSM3_HAL=verbs has psm3 use RDMA; it would else use plain Ethernet where there is no RDMA. Intel MPI
    sets the same by itself: on a host without RDMA, psm3 was found with PSM3_HAL=sockets only. Of all these fabrics,
    psm3 alone has been run, over plain Ethernet with PSM3_HAL=sockets.
    """
    if fabric == "tcp":
        return {}
    by_fabric = {
        "psm3": {"PSM3_HAL": "verbs"},
        "efa": {"FI_EFA_FORK_SAFE": "1"},
        "verbs": {"IBV_FORK_SAFE": "1", "RDMAV_HUGEPAGES_SAFE": "1"},
    }
    shared = {} if backend == "ccl" else {"I_MPI_FABRICS": "shm:ofi"}
    return {"FI_PROVIDER": fabric, "I_MPI_OFI_PROVIDER": fabric, **shared, **by_fabric.get(fabric, {})}


def sourced(env: Path, bindings: str) -> dict[str, str]:
    """Return the variables that Intel MPI and oneCCL need, as env/setvars.sh of the bindings itself sets them here.

    Since version 2.3 of the bindings Intel MPI is in their opt/mpi, before beside their bin and lib. Where they have no
    such script, or bash does not run, what mpi_environment returns. env, bindings: as there.
    """
    usual = mpi_environment(str(env), bindings)
    variables = of_script(env / bindings / "env" / "setvars.sh", str(env))
    return {"CCL_ROOT": usual["CCL_ROOT"], **variables} if variables else usual


def of_script(script: Path, env: str) -> dict[str, str]:
    """Return the variables that a vendor's script sets, such as vars.sh of oneAPI's Intel MPI.

    env: the path of the virtual environment, whose programs and libraries are found, too. Empty where there is no such
    script, it sets nothing, or bash does not run.
    """
    before = {"PATH": _system_path(env), "LD_LIBRARY_PATH": f"{env}/lib"}
    if not script.is_file():
        return {}
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
        return {}
    after = dict(line.split("=", 1) for line in ran.stdout.split("\0") if "=" in line)
    variables = {
        name: _listed(value) if name.endswith("PATH") else value
        for name, value in sorted(after.items())
        if KEPT.fullmatch(name)
    }
    return {} if variables.items() <= before.items() else {**before, **variables, "FI_PROVIDER": "tcp"}


def _system_path(env: str) -> str:
    return f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _listed(value: str) -> str:
    """A list of directories without those that are empty, which would be the current one, or repeated."""
    return ":".join(dict.fromkeys(filter(None, value.split(":"))))
