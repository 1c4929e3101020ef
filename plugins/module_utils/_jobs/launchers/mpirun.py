# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel MPI's mpirun (Hydra): one command starts the ranks on all hosts of a hostfile."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping, Sequence

from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs import exchange
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import (
    Killed,
    Launcher,
    free_port,
    python,
    rank_command,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi

# Hydra's report of a rank that ended by a signal.
KILLED = re.compile(
    r"RANK\s+(?P<rank>\d+)\s+PID\s+\d+\s+RUNNING AT\s+(?P<host>\S+)[ \t]*\n=\s+KILLED BY SIGNAL:\s*(?P<signal>\d+)"
)


class Mpirun(Launcher):
    """mpirun on the head starts a proxy on every host over SSH, and each proxy that host's ranks."""

    name = "mpirun"
    rank_variables = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")
    pins = True
    is_mpi = True
    backends = ("mpi", "gloo", "ccl")
    settled: Mapping[str, str] = {
        **Launcher.settled,
        r"I_MPI_PIN\w*": "the core allocation (ranks_per_node, comm_cores, reserved_cores, threads_per_core)",
        "I_MPI_HYDRA_HOST_FILE|I_MPI_PERHOST": "launch.sh from hosts and ranks_per_node",
    }

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return what mpirun needs to run, and how it reaches the hosts."""
        # As the bindings themselves set it, with which the virtual environment was checked.
        mpi = plan.mpi or intel_mpi.mpi_environment(plan.environment, plan.bindings)
        return {
            # Intel MPI is the bindings' also where ranks do without oneCCL.
            **{name: value for name, value in mpi.items() if plan.backend == "ccl" or not name.startswith("CCL_")},
            **(plan.fabric.env if plan.fabric else {}),
            "I_MPI_HYDRA_IFACE": plan.head_interface,
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "MASTER_ADDR": plan.master_addr,
        }

    def files(self, plan: Plan, words: Sequence[str]) -> dict[str, str]:
        """Return the hostfile, env (what mpirun itself is set to) and launch.sh; exchange.sh with a fabric to test."""
        tested = plan.fabric and plan.fabric.env and len(plan.hosts) > 1
        return {
            **({exchange.SCRIPT: exchange.script(plan, python(plan))} if tested else {}),
            "hostfile": "".join(f"{host.host}\n" for host in plan.hosts),
            "env": self.env_file(plan),
            "launch.sh": LAUNCH.format(
                job=plan.job,
                ignore=login_shell.IGNORE,
                ranks=plan.world_size,
                hosts=len(plan.hosts),
                port=free_port(plan),
                run=_mpirun(plan, rank_command(plan, words)),
            ),
        }

    def killed(self, log: str, plan: Plan, ended: Sequence[int] = ()) -> Killed | None:
        """Return the rank that was killed first of those that Hydra reports, in their order.

        Hydra itself ends the others by SIGKILL, those that wait in MPI: another signal is not Hydra's.
        """
        killed = [Killed(int(match["rank"]), match["host"], int(match["signal"])) for match in KILLED.finditer(log)]
        order = {rank: place for place, rank in enumerate(ended)}
        return min(
            killed, key=lambda end: (end.signal == signal.SIGKILL, order.get(end.rank, len(order))), default=None
        )


def _mpirun(plan: Plan, command: str) -> str:
    counts = {len(host.ranks) for host in plan.hosts}
    pins = {host.env.get("I_MPI_PIN_DOMAIN", "") for host in plan.hosts}
    if len(counts) == len(pins) == 1:
        start = f"mpirun -f hostfile -n {plan.world_size} -ppn {counts.pop()}"
        return f"exec {start} -genv I_MPI_PIN_DOMAIN {shlex.quote(pins.pop())} \\\n  {command}"
    sets = []
    for host in plan.hosts:
        name, domain = shlex.quote(host.host), shlex.quote(host.env["I_MPI_PIN_DOMAIN"])
        sets.append(f"-n {len(host.ranks)} -host {name} -env I_MPI_PIN_DOMAIN {domain} \\\n  {command}")
    return "exec mpirun " + " : \\\n  ".join(sets)


LAUNCH = """\
#!/usr/bin/env bash
# Job {job}: {ranks} rank(s) on {hosts} host(s), started by mpirun. Written by amx.cluster from job.yml and plan.json.
# It needs this directory and what it names, which every host of the hostfile has: run it again with `bash launch.sh`.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"

{ignore}
# The environment of mpirun. Each rank's own (its cores, threads and interface) is in plan.json; rank.py sets it.
set -a
source ./env
# Where rank 0 waits for the others: a port that is free on its host now.
MASTER_PORT=$({port})
set +a

{run}
"""

LAUNCHER = Mpirun()
