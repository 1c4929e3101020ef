"""What the integration tests need from the machine they run on.

AMX_CLUSTER_ENV: a Python environment with Intel MPI (impi-rt) and libiomp5 (intel-openmp). Without it they are skipped.
AMX_CLUSTER_TREES: further machines to judge, captured /sys and /proc trees: folders separated by colons, each with
`=CPUS` behind it if only those may be used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / ".collections"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@dataclass(frozen=True)
class IntelMpi:
    """Intel MPI and Intel's OpenMP run time in a Python environment."""

    prefix: Path

    def run(self, ranks: int, command: list[str], env: Mapping[str, str]) -> dict[int, str]:
        """Start ranks on this machine with nothing but `env` in their environment; returns the line each printed."""
        library = self.prefix / "lib"
        done = subprocess.run(
            [str(self.prefix / "bin/mpirun"), "-n", str(ranks), *command],
            env={
                "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}",
                "HOME": os.environ.get("HOME", "/"),
                "I_MPI_ROOT": str(self.prefix),
                "LD_LIBRARY_PATH": str(library),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = (line.split(maxsplit=1) for line in done.stdout.splitlines())
        return {int(rank): rest[0] if rest else "" for rank, *rest in lines}

    @property
    def openmp(self) -> Path:
        """Intel's OpenMP run time."""
        return self.prefix / "lib/libiomp5.so"


@pytest.fixture(scope="session")
def intel_mpi() -> IntelMpi:
    prefix = os.environ.get("AMX_CLUSTER_ENV")
    if not prefix:
        pytest.skip("AMX_CLUSTER_ENV names no environment with Intel MPI")
    return IntelMpi(Path(prefix))
