"""Intel MPI of an installed environment, as the integration tests call it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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
