# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes: every pod starts torchrun for its own ranks, and the pods meet at the first one.

There is no hostfile and no login: playbooks/train.yml creates the objects (module_utils/_kubernetes), and the command
pod plans each pod's ranks when it starts, by the CPUs that it has then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import torchrun
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed, Launcher
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan

# Has a pod's name where its ranks start.
POD = "AMX_CLUSTER_POD"


class Kubernetes(Launcher):
    """Pods of a Job, a PyTorchJob or a TrainJob, in each of which torchrun starts the ranks."""

    name = "kubernetes"
    rank_variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    pins = False
    backends = ("gloo", "ccl")
    runtime = "kubernetes"

    def elsewhere(self, file: object = "") -> str:
        """Return what to do about a job that needs ranks on hosts of the inventory. file: the job's."""
        option = f" -e job={file}" if file else ""
        return (
            f"launcher: {self.name} starts pods, not ranks on hosts of the inventory: see what is derived for "
            f"its pods (playbooks/manifest.yml{option}), run the job (playbooks/train.yml{option}), or set launcher to "
            "mpirun"
        )

    def for_ranks(self) -> dict[str, Any]:
        """Return what rank.py needs to know of the launcher: also where it finds the name of its pod.

        Nobody logs in on a pod: its variables are those of its object and its image.
        """
        return {**super().for_ranks(), "host_variable": POD, "ignored": ""}

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return nothing: what torchrun needs is in the pod's command, see _kubernetes/pod/main.py."""
        return {}

    def files(self, plan: Plan, words: Sequence[str]) -> dict[str, str]:
        """Refuse: what a run needs on Kubernetes is objects. Raises ValueError."""
        raise ValueError(self.elsewhere())

    def killed(self, log: str, plan: Plan, ended: Sequence[int] = ()) -> Killed | None:
        """Return the rank that torchrun reports as killed, in the pod that the plan has it in."""
        return torchrun.LAUNCHER.killed(log, plan, ended)


LAUNCHER = Kubernetes()
