# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launchers: the interface between a plan and the program that starts its ranks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import BACKENDS, CCL_BY_MPIRUN


@dataclass(frozen=True)
class Killed:
    """A rank that was ended by a signal, as a launcher's log reports it."""

    rank: int
    host: str
    signal: int


class Launcher:
    """A program that starts the ranks of a plan on its hosts, numbers them and ends them together.

    name: what a job file calls it. rank_variables: the environment variables in which it gives a process its rank, the
    number of ranks and its number on the host. pins: whether it confines each rank to its domain; where it does not,
    rank.py does. is_mpi: whether its ranks are processes of Intel MPI. backends: the communication backends that work
    under it. settled: which further variables of its own a
    job may not set, as regular expressions, each with what sets them. runtime: what starts, finds and stops its jobs
    (plugin_utils/runtimes). submits: whether it hands the job to a batch system, in whose allocation the plan is made.
    """

    name: str
    rank_variables: tuple[str, str, str]
    pins: bool
    is_mpi: bool = False
    backends: tuple[str, ...]
    settled: Mapping[str, str] = {"MASTER_PORT": "launch.sh at every start"}
    runtime: str = "hosts"
    submits: bool = False

    def elsewhere(self, file: object = "") -> str:
        """Return what to do about a job that needs ranks on hosts of the inventory; empty where it starts them there.

        file: the job's.
        """
        del file
        return ""

    def for_ranks(self) -> dict[str, Any]:
        """Return what rank.py needs to know of the launcher, as plan.json has it.

        ignored: variables of a login on a host that ranks do not get, as a regular expression.
        """
        return {
            "name": self.name,
            "rank_variables": list(self.rank_variables),
            "pins": self.pins,
            "ignored": login_shell.OF_RANKS,
        }

    def usable(self, stack: str) -> list[str]:
        """Return the backends that a stack has and that work under this launcher. stack: its catalogue.backend_key."""
        waits = stack == CCL_BY_MPIRUN and not self.is_mpi
        return [name for name in BACKENDS[stack] if name in self.backends and not (waits and name == "ccl")]

    def backend(self, wanted: str, stack: str) -> str:
        """Return the backend of a job: the wanted one, or for "auto" the stack's first that works under this launcher.

        stack: the catalogue.backend_key of the stack. Raises ValueError where there is none, naming those that there
        are.
        """
        there, usable = BACKENDS[stack], self.usable(stack)
        if wanted != "auto" and wanted not in there:
            raise ValueError(f"backend: {wanted} is not in this stack; it has {', '.join(there)}")
        if wanted in usable or (wanted == "auto" and usable):
            return usable[0] if wanted == "auto" else wanted
        if wanted == "ccl" and stack == CCL_BY_MPIRUN:
            raise ValueError(
                f"backend: ccl needs launcher mpirun with this stack, not {self.name}: oneccl-bind-pt before 2.3.100 "
                "does not read torchrun's LOCAL_RANK. Set launcher: mpirun or backend: gloo, or cluster_stack to "
                "ipex-2.8"
            )
        raise ValueError(
            f"launcher: {self.name} cannot start ranks with backend {stack if wanted == 'auto' else wanted}; it works "
            f"with {', '.join(self.backends)}"
        )

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return the variables of the launcher itself that follow from the plan."""
        raise NotImplementedError

    def contradiction(self, plan: Plan) -> str:
        """Return why the plan's env_launcher cannot be used; an empty string when it can."""
        derived = self.derived(plan)
        for name, value in plan.env_launcher.items():
            if derived.get(name, value) != value:
                return f"env_launcher: {name} is set to {derived[name]}, which follows from the plan: leave it out"
            for pattern, settled_by in self.settled.items():
                if re.fullmatch(pattern, name):
                    return f"env_launcher: {name} is set by {settled_by}: leave it out"
        return ""

    def env_file(self, plan: Plan) -> str:
        """Return the file env: what the launcher itself is set to, by the plan and by the job file."""
        return variables_file({**self.derived(plan), **plan.env_launcher})

    def files(self, plan: Plan, words: Sequence[str]) -> dict[str, str]:
        """Return the files that a run needs in its directory on every host, by name; launch.sh is among them.

        words: the script's path in the job directory and its arguments.
        """
        raise NotImplementedError

    def killed(self, log: str, plan: Plan, ended: Sequence[int] = ()) -> Killed | None:
        """Return the first rank that was ended by a signal, from what the launcher printed into the log.

        ended: ranks in the order in which their processes ended, as far as it is known.
        """
        raise NotImplementedError


def rank_command(plan: Plan, words: Sequence[str]) -> str:
    """Return the shell command that becomes one rank, an argument and its values on a line."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    lines = [" ".join(shlex.quote(word) for word in group) for group in groups]
    return " \\\n    ".join([f"{shlex.quote(python(plan))} -S {shlex.quote(plan.runtime)} rank", *lines])


def python(plan: Plan) -> str:
    """Return the path of the virtual environment's interpreter, the same on every host."""
    return f"{plan.environment}/bin/python"


def variables_file(variables: Mapping[str, str]) -> str:
    """Return NAME=value lines that a shell can source."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def free_port(plan: Plan) -> str:
    """Return the shell command that prints a TCP port that is free now on the host of rank 0."""
    program = 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
    command = f"{shlex.quote(python(plan))} -S -c {shlex.quote(program)}"
    first = plan.hosts[0].host
    if plan.head in ("", first):
        return command
    # Its last line: a login may print something first.
    return f"ssh -o BatchMode=yes {shlex.quote(first)} {shlex.quote(command)} | tail -n 1"
