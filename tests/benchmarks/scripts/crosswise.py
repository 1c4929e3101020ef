"""What measure_training.py begins with on hosts that share two cores: odd ranks compute where even ones communicate.

Each rank then has a core to compute on, on which the communication of the other one runs: what a communication core
gains is measured, although there are no more cores than ranks.
"""

from __future__ import annotations

import os
import sys

if int(os.environ["RANK"]) % 2 and "CROSSED" not in os.environ:
    computing, communicating = os.sched_getaffinity(0), os.environ["AMX_CLUSTER_MPI_CPUS"]
    os.environ.update(CROSSED="1", AMX_CLUSTER_MPI_CPUS=",".join(map(str, sorted(computing))))
    os.sched_setaffinity(0, {int(cpu) for cpu in communicating.split(",")})
    # Anew, as the OpenMP run time has read where it may run.
    os.execv(sys.executable, sys.orig_argv)
