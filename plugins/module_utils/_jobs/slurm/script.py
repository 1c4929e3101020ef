# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that is submitted by sbatch, and what Slurm says of it, with the field that it is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import slurm
from ansible_collections.amx.cluster.plugins.module_utils._hosts.slurm import parse_partitions, seconds
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._text import count

NAME = "batch.sh"
# Seconds before the time limit at which ranks are to save a checkpoint, and the share of a short limit. Nothing waits
# in the last 20 s (departures.LAST).
SIGNAL, SHARE = 120, 2
NODE = re.compile(r"[\w.-]+")
# Years from now in which the start of a job is no estimate.
FAR = 2
# Words of Slurm's refusals, and the field that each is about; the first that matches counts.
ABOUT = {
    r"accounting/QOS policy": "qos",
    r"[Aa]ccount": "account",
    r"partition": "partition",
    r"QOS|qos": "qos",
    r"time limit|--time": "time",
    r"[Mm]emory|--mem|feature|option": "extra",
    r"[Nn]ode (count|configuration|name)|CPU count|More processors": "hosts",
}


def requested(inventory: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """Return what a job requests, by the names of fields.FIELDS. inventory: cluster_slurm, as of_inventory has it."""
    return {**inventory, **job.slurm}


def nodes(job: Job) -> int:
    """Return the number of nodes of a job: one where its file leaves that open."""
    return len(job.hosts) if isinstance(job.hosts, list) else job.hosts or 1


def signal_seconds(request: Mapping[str, Any]) -> int:
    """Return how many seconds before the time limit Slurm sends its signal."""
    limit = seconds(str(request.get("time", "")))
    return min(SIGNAL, limit // SHARE) if limit else SIGNAL


def resources(request: Mapping[str, Any], job: Job) -> list[str]:
    """Return the options of sbatch that decide whether Slurm accepts a job, and where it runs."""
    named = [f"--nodelist={','.join(job.hosts)}"] if isinstance(job.hosts, list) else []
    cpus = request.get("cpus")
    return [
        f"--nodes={nodes(job)}",
        *named,
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}" if cpus else "--exclusive",
        *(f"--{name}={request[name]}" for name in ("partition", "account", "qos", "time") if name in request),
        *request.get("extra", []),
    ]


def batch_script(
    request: Mapping[str, Any], job: Job, directory: str, environment: str, runtime: str, start: str = ""
) -> str:
    """Return the script. directory: of the job. environment, runtime: as plan.Plan has them. start: as run.Settings
    has it; what Slurm starts late does nothing where the directory is that of another start by then."""
    options = [
        f"--job-name={job.name}",
        *resources(request, job),
        # After a lost node. Not --no-kill: without the node of this script, nobody would end the job.
        "--requeue" if job.restarts else "--no-requeue",
        f"--signal=B:USR2@{signal_seconds(request)}",
        f"--output={directory.replace('%', '%%')}/supervise.log",
        "--open-mode=append",
    ]
    return SCRIPT.format(
        job=job.name,
        nodes=count(nodes(job), "node"),
        directory=shlex.quote(directory),
        options="\n".join(f"#SBATCH {option}" for option in options),
        command=f"{shlex.quote(f'{environment}/bin/python')} -S {shlex.quote(runtime)} allocation",
        start=shlex.quote(start) if start else "",
    )


SCRIPT = """\
#!/bin/bash
# Job {job} on {nodes}, written by amx.cluster from the job file and cluster_slurm of the inventory. It needs its job
# directory, which `amx train` writes: submit it again without Ansible by
#     sbatch {directory}/batch.sh
{options}
set -eu
cd {directory}

# The plan binds ranks, by the CPUs that Slurm has given on each node. What Slurm or a login has set for the tasks of a
# step would bind them otherwise.
for name in $(compgen -e); do
    case $name in
        SLURM_CPU_BIND* | SLURM_CPUS_PER_TASK | SLURM_TRES_PER_TASK | SLURM_MEM_BIND* | SLURM_HINT) unset "$name" ;;
    esac
done
# Steps get the environment of this script, also where sbatch was called with --export=NONE.
export SLURM_EXPORT_ENV=ALL

# The supervisor of the job: makes the plan, starts the ranks by mpirun, and gets Slurm's signals.
# Until the supervisor handles them.
trap '' USR1 USR2
# Of a job that continues another one, its argument is the id of that.
exec {command} {directory} {start}"${{1:+:$1}}"
"""


def refusal(output: str, job: Job) -> str:
    """Return Slurm's sentence about a job that it does not accept, after the field of the job file or the inventory.

    output: what sbatch printed.
    """
    lines = [re.sub(r"^(sbatch|srun|allocation failure|error): ", "", line) for line in output.splitlines()]
    lines = [re.sub(r"^(error|allocation failure): ", "", line) for line in lines]
    sentence = "; ".join(dict.fromkeys(filter(None, map(str.strip, lines)))) or "sbatch gave no reason"
    return f"{field_of(sentence, job)}: Slurm does not accept job {job.name}: {sentence}"


def field_of(sentence: str, job: Job) -> str:
    """Return the field that a sentence of Slurm is about, or those that it may be about."""
    name = next((name for pattern, name in ABOUT.items() if re.search(pattern, sentence)), "")
    if name == "hosts":
        others = [f"slurm.{other}" for other in ("cpus", "extra") if other in job.slurm]
        return f"{' or '.join(['hosts', *others])} in {job.file}"
    if name in job.slurm:
        return f"slurm.{name} in {job.file}"
    return f"cluster_slurm.{name}" if name else "cluster_slurm"


def estimate(output: str) -> str:
    """Return when and where a job would start, in the words of sbatch --test-only; empty where that is not known."""
    match = re.search(r"Job \d+ (to start at (\d{4}).*)", output)
    # Behind jobs without a time limit Slurm names a year far away.
    return match[1].strip() if match and int(match[2]) < datetime.now().year + FAR else ""


def summary(request: Mapping[str, Any], job: Job, start: str) -> str:
    """Return what is requested of Slurm, for a person. start: as `estimate` returns it."""
    cpus = f"{count(request['cpus'], 'CPU')} of each" if "cpus" in request else "all of each"
    settings = [f"{name} {request[name]}" for name in ("partition", "account", "qos", "time") if name in request]
    lines = [", ".join([f"Slurm: job {job.name} on {count(nodes(job), 'node')}, {cpus}", *settings])]
    lines += [f"  submitted now, it is expected {start}"] if start else []
    return "\n".join([*lines, "  which core does what is planned in the allocation, from the CPUs that Slurm gives"])


def unnamed(job: Job) -> str:
    """Return why the nodes of a job cannot be requested: Slurm reads brackets and commas as several."""
    wrong = [name for name in job.hosts if not NODE.fullmatch(name)] if isinstance(job.hosts, list) else []
    return f"hosts in {job.file}: {', '.join(wrong)}: name each node of Slurm by itself" if wrong else ""


def over_limit(request: Mapping[str, Any], job: Job, partition: str) -> str:
    """Return why a job would wait indefinitely in its partition, which Slurm accepts where EnforcePartLimits is NO.

    partition: what `scontrol show partition -o` prints of it.
    """
    entries = next(iter(parse_partitions(partition).values()), {})
    limit = slurm.over_limit(entries, request.get("time", ""))
    if limit:
        return (
            f"{field_of('time limit', job)}: {request['time']} is over the limit of partition "
            f"{entries['PartitionName']}, {limit}: the job would never start"
        )
    most = entries.get("MaxNodes", "")
    if most.isdigit() and nodes(job) > int(most):
        return f"{field_of('node count', job)}: partition {entries['PartitionName']} gives a job {most} nodes at most"
    return ""
