"""Scripts as ranks of real Intel MPI on this machine, with the package amx_cluster_mpi."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.checkout import ROOT

JUDGES = ROOT / "tests/integration/collectives"
PACKAGES = ROOT / "runtime"
# What mpirun gives a rank, as rank.py hands it on.
RANK = 'export RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE LOCAL_RANK=$MPI_LOCALRANKID; exec "$@"'
PORT = 29600


def run(
    environment: Path, ranks: int, *command: str, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a script with so many ranks on this machine; what they print is in stdout."""
    global PORT
    PORT += 1
    library = f"{environment}/lib"
    return subprocess.run(
        [
            f"{environment}/bin/mpirun",
            "-n",
            str(ranks),
            "bash",
            "-c",
            RANK,
            "rank",
            f"{environment}/bin/python",
            *command,
        ],
        env={
            "PATH": f"{environment}/bin:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "I_MPI_ROOT": str(environment),
            "I_MPI_PIN": "0",
            "LD_LIBRARY_PATH": library,
            "FI_PROVIDER_PATH": library,
            "FI_PROVIDER": "tcp",
            "PYTHONPATH": str(PACKAGES),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(PORT),
            **(env or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
