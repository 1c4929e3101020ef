# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a run: rendered in one place, at the first start and at a restart."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import arguments, checkpoints


def script_arguments(job: Mapping[str, Any], stack: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return the script's command line: the job's own arguments, and what the launcher adds in the stack's spelling.

    What is added, and how it is spelt, is told in arguments; docs/stacks.md has the table. A job whose script
    does not use transformers' Trainer (trainer: false) gets its own arguments only.
    """
    if not job.get("trainer", True):
        return render_arguments(job["args"])
    own = {**job["args"], **checkpoints(job.get("checkpoints"))}
    return render_arguments(arguments(stack["arguments"], own, plan["world_size"], plan["precision"]))


def script_path(job: Mapping[str, Any]) -> str:
    """Return where a job's script lies in the job directory: one's own in the folder itself, an example as in its
    repository."""
    script = PurePath(job["script"])
    return script.name if script.is_absolute() else str(script)


def render_arguments(args: Mapping[str, Any]) -> list[str]:
    """Spell a mapping of arguments as transformers' HfArgumentParser reads it.

    true is the bare flag, false is "--flag false" (a switch that is on by default can be turned off), a list is the
    flag followed by its items.
    """
    words = []
    for name, value in args.items():
        words.append(f"--{name}")
        if isinstance(value, bool):
            words += [] if value else ["false"]
        elif isinstance(value, (list, tuple)):
            words += [str(item) for item in value]
        else:
            words.append(str(value))
    return words


def hostfile(plan: Mapping[str, Any]) -> str:
    """Return Intel MPI's host file: a host a line, the head first."""
    return "".join(f"{host['host']}\n" for host in plan["hosts"])


def environment_file(plan: Mapping[str, Any]) -> str:
    """Return what mpirun itself is told, as a file that a shell can source: NAME=value lines."""
    variables = {
        **intel_mpi.mpi_environment(plan["environment"], plan["bindings"]),
        "I_MPI_HYDRA_IFACE": plan["hosts"][0]["interface"],
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "MASTER_ADDR": plan["master_addr"],
    }
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def launch_script(plan: Mapping[str, Any], script: str, arguments: Sequence[str]) -> str:
    """Return launch.sh: what a person would type to start the job, to be read and to be run again without Ansible.

    script: its path in the job directory.
    """
    python = f"{plan['environment']}/bin/python"
    words = [script, *arguments]
    lines = [" ".join(shlex.quote(word) for word in group) for group in _groups(words)]
    rank = f"{shlex.quote(python)} -S rank.py"
    command = " \\\n    ".join([rank, *lines])
    counts = {len(host["ranks"]) for host in plan["hosts"]}
    pins = {host["env"].get("I_MPI_PIN_DOMAIN", "") for host in plan["hosts"]}
    if len(counts) == len(pins) == 1:
        start = f"mpirun -f hostfile -n {plan['world_size']} -ppn {counts.pop()}"
        pin = f" -genv I_MPI_PIN_DOMAIN {shlex.quote(pins.pop())}"
        run = f"exec {start}{pin} \\\n  {command}"
    else:
        sets = []
        for host in plan["hosts"]:
            name, domain = shlex.quote(host["host"]), shlex.quote(host["env"]["I_MPI_PIN_DOMAIN"])
            count = len(host["ranks"])
            sets.append(f"-n {count} -host {name} -env I_MPI_PIN_DOMAIN {domain} \\\n  {command}")
        run = "exec mpirun " + " : \\\n  ".join(sets)
    return LAUNCH.format(
        job=plan["job"], ranks=plan["world_size"], hosts=len(plan["hosts"]), python=shlex.quote(python), run=run
    )


def _groups(words: Sequence[str]) -> list[list[str]]:
    """Put an argument and its values on a line of their own."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    return groups


LAUNCH = """\
#!/usr/bin/env bash
# Job {job}: {ranks} rank(s) on {hosts} host(s). Written by amx.cluster from job.yml and plan.json.
# It needs nothing but this folder, which every host of the hostfile has: run it again with `bash launch.sh`.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"

# What mpirun is told. What each rank is told besides (its cores, threads and interface) stands in plan.json, and
# rank.py hands it over.
set -a
source ./env
# Where rank 0 waits for the others: a port that is free on this host now.
MASTER_PORT=$({python} -S -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
set +a

{run}
"""
