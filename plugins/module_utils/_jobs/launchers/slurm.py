# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm: mpirun in the allocation of a batch job, with a proxy on every node that srun starts as a step.

Facts: Slurm 22.05, Intel MPI 2021.18: without these options the step binds the proxy to the CPUs of one task, and waits
for the batch script's own step. A login by SSH would leave the CPUs and the memory that Slurm gave.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.mpirun import Mpirun
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan


class Slurm(Mpirun):
    """The ranks of a batch job, which its supervisor starts in the allocation."""

    name = "slurm"
    runtime = "slurm"
    submits = True

    def elsewhere(self, file: object = "") -> str:
        """Return what to do about a job that needs ranks on hosts of the inventory. file: the job's."""
        del file
        return (
            "the inventory's host is a login host of Slurm, on which no ranks run (cluster_slurm): use an inventory of "
            "hosts. On Slurm, playbooks/train.yml, verify.yml and plan.yml run"
        )

    def for_ranks(self) -> dict[str, Any]:
        """Return what rank.py needs to know of the launcher: also that ranks of other jobs may be on their node."""
        return {**super().for_ranks(), "shares_hosts": True}

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return what mpirun needs to run, and how it reaches the nodes."""
        return {
            **super().derived(plan),
            "I_MPI_HYDRA_BOOTSTRAP": "slurm",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "--overlap --cpu-bind=none --mpi=none",
        }


LAUNCHER = Slurm()
