# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a job and the hosts' core allocations to the files of a job directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _amx, _flags


def bindings_folder(stack: Mapping[str, Any]) -> str:
    """Return where in an environment the package lies that brings oneCCL and Intel MPI along; empty without one.

    stack: an entry of the catalogue with `interpreter`, the hosts' Python.
    """
    if stack["backend"] != "ccl":
        return ""
    return f"lib/python{stack['interpreter']}/site-packages/{stack['bindings']}"


def mpi_environment(env: str, bindings: str = "") -> dict[str, str]:
    """Return the variables that Intel MPI and oneCCL need, as a vendor's setvars.sh would set them.

    env: the folder of the virtual environment. bindings: see bindings_folder; their env/setvars.sh (from oneCCL's
    cmake/setvars.sh.in and vars.sh.in) sets CCL_ROOT, I_MPI_ROOT, PATH, LD_LIBRARY_PATH and FI_PROVIDER_PATH. Without
    bindings Intel MPI comes out of the wheel impi-rt. With a wrong FI_PROVIDER_PATH MPI_Init dies with `OFI
    fi_getinfo() failed`, without the library path a script with `libccl.so.1 not found`.
    """
    system = f"{env}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if not bindings:
        return {
            "I_MPI_ROOT": env,
            "PATH": system,
            "LD_LIBRARY_PATH": f"{env}/lib",
            "FI_PROVIDER_PATH": f"{env}/lib",
            "FI_PROVIDER": "tcp",
        }
    root = f"{env}/{bindings}"
    return {
        "CCL_ROOT": root,
        "I_MPI_ROOT": root,
        "PATH": f"{root}/bin:{system}",
        "LD_LIBRARY_PATH": f"{root}/lib:{env}/lib",
        "FI_PROVIDER_PATH": f"{root}/lib/prov",
        "FI_PROVIDER": "tcp",
    }


def choose_precision(wanted: str, isas: Mapping[str, str]) -> str:
    """Return "bf16" or "fp32" for a job that wants `wanted` ("auto", "bf16" or "fp32").

    isas: {host: best instruction set, as _amx.best_isa names it}. auto is bf16 when every host multiplies bfloat16
    matrices in hardware, else fp32: one host that must emulate it would hold up all the others.
    """
    if wanted != "auto":
        return wanted
    return "bf16" if all(isa in _amx.BF16_ISAS for isa in isas.values()) else "fp32"


def make_plan(
    job: Mapping[str, Any],
    stack: Mapping[str, Any],
    env: str,
    hosts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Put together what each rank of a job is told.

    job: as _job.Job has it. stack: an entry of the catalogue. env: the environment's folder, the same on every host.
    hosts: in the order of the hostfile, each {host, address, interface, isa, allocation, tcmalloc}, the allocation as
    the module core_allocation returns it; tcmalloc is where the host's loader finds it, empty or left out for none.

    Returns {job, world_size, backend, precision, master_addr, bindings, hosts: [{host, address, interface, first_rank,
    env, ranks: [{rank, env, compute_cpus, comm_cpus, ...}]}]}; `rank` counts over the whole group, `env` of a host is
    what all its ranks are told and `env` of a rank what it is told besides.
    """
    plan: dict[str, Any] = {
        "job": job["name"],
        "stack": stack["name"],
        "backend": stack["backend"],
        "precision": choose_precision(job["precision"], {host["host"]: host["isa"] for host in hosts}),
        "master_addr": hosts[0]["address"],
        "environment": env,
        "bindings": bindings_folder(stack),
        "world_size": 0,
        "hosts": [],
    }
    for host in hosts:
        allocation = host["allocation"]
        first = plan["world_size"]
        ranks = [{**rank, "rank": first + place} for place, rank in enumerate(allocation["ranks"])]
        plan["hosts"].append(
            {
                **{key: host[key] for key in ("host", "address", "interface", "isa")},
                "first_rank": first,
                "env": {
                    **allocation["env"],
                    "LD_PRELOAD": ":".join(filter(None, [host.get("tcmalloc"), f"{env}/lib/libiomp5.so"])),
                    "GLOO_SOCKET_IFNAME": host["interface"],
                    "FI_TCP_IFACE": host["interface"],
                    **(
                        {"CCL_KVS_IFACE": host["interface"], "AMX_CLUSTER_BINDINGS": stack["bindings"]}
                        if stack["backend"] == "ccl"
                        else {}
                    ),
                    "MASTER_ADDR": plan["master_addr"],
                    "TOKENIZERS_PARALLELISM": "false",
                    # Models and data are there before the job starts; ranks must not each look for them on the network.
                    "HF_HUB_OFFLINE": "1",
                    **job["env"],
                },
                "ranks": ranks,
                **{key: allocation[key] for key in ("threads_per_rank", "map")},
                "warnings": allocation.get("warnings", []),
            }
        )
        plan["world_size"] += len(ranks)
    return plan


def on_hosts(plan: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the plan for those of its hosts that are named, in its own order: ranks are counted anew.

    What each host does stays as it was planned there. Raises ValueError when none is left.
    """
    hosts = [host for host in plan["hosts"] if host["host"] in names]
    if not hosts:
        raise ValueError("no host is left to run the job on")
    address = hosts[0]["address"]
    made: dict[str, Any] = {**plan, "master_addr": address, "world_size": 0, "hosts": []}
    for host in hosts:
        first = made["world_size"]
        ranks = [{**rank, "rank": first + place} for place, rank in enumerate(host["ranks"])]
        env = {**host["env"], "MASTER_ADDR": address}
        made["hosts"].append({**host, "first_rank": first, "ranks": ranks, "env": env})
        made["world_size"] += len(ranks)
    return made


def script_arguments(job: Mapping[str, Any], stack: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return the script's command line: the job's own arguments, and what the launcher adds in the stack's spelling.

    What is added, and how it is spelt, is told in _flags.arguments; docs/stacks.md has the table. A job whose script
    does not use transformers' Trainer (trainer: false) gets its own arguments only.
    """
    if not job.get("trainer", True):
        return render_arguments(job["args"])
    own = {**job["args"], **_flags.checkpoints(job.get("checkpoints"))}
    return render_arguments(_flags.arguments(stack["arguments"], own, plan["world_size"], plan["precision"]))


def script_path(job: Mapping[str, Any]) -> str:
    """Return where a job's script lies in the job directory: one's own in the folder itself, an example as in its
    repository."""
    script = PurePath(job["script"])
    return script.name if script.is_absolute() else str(script)


# The field of a job, and the folder of the job directory that has what it provides.
FOLDERS = {"models": "models", "data": "datasets"}
# The same of the hosts' cache. Of metrics each has a folder of its own in the job directory.
CACHED = {**FOLDERS, "metrics": "metrics"}


def sources(job: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return {name in the hosts' cache: source} of one of a job's fields models, data and metrics."""
    return {f"{CACHED[field]}/{name}": source for name, source in job[field].items()}


def links(job: Mapping[str, Any], cached: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return {path in the job directory: where it lies on the host} of what a job was provided with.

    cached: {name in the host's cache: folder}. others: further links; one that points to nowhere is left out. A metric
    lies in the job directory itself, where evaluate.load finds it by its name; what is not cached yet is left out.
    """
    wanted = {name: name for field in FOLDERS for name in sources(job, field)}
    wanted.update({name.partition("/")[2]: name for name in sources(job, "metrics")})
    made = {path: cached[name] for path, name in wanted.items() if name in cached}
    return {**made, **{path: target for path, target in others.items() if target}}


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
        **mpi_environment(plan["environment"], plan["bindings"]),
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
