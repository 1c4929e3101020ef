# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that the inventory's head, a login host of Slurm, submits; each keeps its directory there, which nodes share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import requests
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue, script
from ansible_collections.amx.cluster.plugins.module_utils._jobs.status import NO_RANKS
from ansible_collections.amx.cluster.plugins.plugin_utils import runtime_command
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.hosts import INTERVAL, Hosts

PENDING = 10.0
"""Seconds between two looks at a job that waits: each asks Slurm's controller."""


class Slurm(Hosts):
    """Ranks in an allocation of Slurm, which the supervisor in the batch script starts by the job's launch.sh."""

    name = "slurm"

    def is_configured(self) -> bool:
        return self.submits()

    def command(self, path: str) -> list[str]:
        return ["submit", path]

    @staticmethod
    def interval(seen: Mapping[str, Any]) -> float:
        return PENDING if seen["status"].get("waiting") else INTERVAL

    def where(self, entry: Mapping[str, Any]) -> str:
        """Return the id of the Slurm job."""
        return f"Slurm job {queue.id_of(entry['status'])}"

    def details(self, entry: Mapping[str, Any]) -> str:
        """Return a job in full. Its ranks are on nodes that nobody asks."""
        text = super().details(entry)
        ranks = f"Slurm job {queue.id_of(entry['status'])} has its ranks."
        return text.replace(NO_RANKS, ranks) if entry["status"]["state"] == "running" else text

    def accepted(self, run: Run) -> str:
        """Ask Slurm whether it accepts a job, and return when it would start, in Slurm's words; submit nothing.

        Raises ValueError with Slurm's reason and the field that it is about.
        """
        job = run.job
        request = script.requested(run.settings.slurm or {}, job)
        if unnamed := script.unnamed(job):
            raise ValueError(unnamed)
        answer = self._ask(
            "sbatch", "--test-only", *script.resources(request, job), f"--job-name={job.name}", "--wrap=true"
        )
        if answer["rc"] == NO_COMMAND:
            raise ValueError(
                f"{self.variables['inventory_hostname']} has no sbatch in its PATH: name a login host of Slurm as the "
                "head, or remove cluster_slurm from the inventory"
            )
        if answer["rc"]:
            raise ValueError(script.refusal(answer["stdout"], job))
        if "partition" in request:
            partition = self._ask("scontrol", "show", "partition", request["partition"], "--oneliner")
            over = script.over_limit(request, job, partition["stdout"])
            if over:
                raise ValueError(over)
        return script.estimate(answer["stdout"])

    def _ask(self, *words: str) -> dict[str, Any]:
        """Return {rc, stdout} of a command of Slurm's on the login host, with what it prints as errors."""
        # 255, with which sbatch refuses an option, is what ssh ends with where the host cannot be reached.
        command = f"{CLEAR}; {shlex.join(words)} 2>&1; code=$?; exit $((code < 255 ? code : 1))"
        return runtime_command.execute(self.action, ["sh", "-c", command], b"")

    def planning(self, run: Run, environment: str, runtime: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the plan is made from in the allocation, as start_request.Start has it."""
        return {
            "prefix": self.jobs.removesuffix("/jobs"),
            "environment": environment,
            "runtime": runtime,
            "network": self.variable("cluster_network") or "",
            "fabric": options["fabric"],
            "tcmalloc": options["tcmalloc"],
            "refuse_memory": options["refuse_memory"],
            "backends": requests.backends(run),
            "request": requests.cores(run, script.nodes(run.job)),
        }


NO_COMMAND = 127
CLEAR = "for name in $(env | sed -n 's/^\\(SLURM_[A-Z_]*\\|SBATCH_[A-Z_]*\\)=.*/\\1/p'); do "
CLEAR += '[ "$name" = SLURM_CONF ] || unset "$name"; done'
"""Options of sbatch that a login has set, without which jobs are submitted, too."""
