"""A job's script that becomes IMB-MPI1: run_imb.py --sizes BYTES ... --seconds S as a rank of mpirun.

The launcher, the cores and the environment are those of every rank. S: at most for each size. What IMB-MPI1 prints is
in the job's log.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._measure.imb import BENCHMARKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", required=True)
    parser.add_argument("--seconds", required=True)
    options = parser.parse_args()
    program = Path(sys.executable).with_name("IMB-MPI1")
    words = [str(program), "-msgsize", ",".join(options.sizes), "-time", options.seconds]
    # All ranks at once, and as much memory as the sizes need: IMB shrinks them silently to what -mem allows (1 GB).
    words += ["-npmin", os.environ["WORLD_SIZE"], "-mem", "64", *BENCHMARKS.values()]
    try:
        os.execv(program, words)
    except OSError as error:
        sys.exit(f"run_imb.py: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
