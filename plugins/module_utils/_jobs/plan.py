# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a job: what every rank of it is set to, made once for the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.module_utils._jobs import secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi


def choose_precision(wanted: str, isas: Mapping[str, str]) -> str:
    """Return "bf16" or "fp32" for a job that requests "auto", "bf16" or "fp32".

    isas: {host: best instruction set, as amx.best_isa names it}. auto is bf16 when every host multiplies bfloat16
    matrices in hardware, else fp32: one host that must emulate it would hold up all the others.
    """
    if wanted != "auto":
        return wanted
    return "bf16" if all(isa in amx.BF16_ISAS for isa in isas.values()) else "fp32"


def make_plan(run: Run, stack: Mapping[str, Any], env: str, hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what each rank of a job is set to.

    stack: an entry of the catalogue. env: the path of the virtual environment, the same on every host. hosts: in the
    order of the hostfile, each {host, address, interface, isa, amx, allocation, tcmalloc}: amx is the reason of
    amx.judge, the allocation as the module core_allocation returns it; tcmalloc is where the host's loader finds it,
    empty or left out for none.

    Returns {job, kind, launcher, watch, secrets, world_size, backend, precision, head, head_interface, master_addr,
    bindings, hosts: [{host, address, interface, first_rank, env, ranks: [{rank, env, compute_cpus, comm_cpus, ...}]}]};
    `rank` counts over the whole group, `env` of a host is what all its ranks are set to and `env` of a rank its own.
    `secrets` has the names of further variables of all ranks, each with where its value comes from. Raises ValueError
    when the launcher does not work with the stack's backend, or with what the job sets it to.
    """
    job = run.job
    launcher = LAUNCHERS[job.launcher]
    refusal = launcher.refusal(stack["backend"])
    if refusal:
        raise ValueError(refusal)
    plan: dict[str, Any] = {
        "job": job.name,
        "kind": job.kind,
        "launcher": launcher.for_ranks(),
        "watch": {**asdict(job.watch), "group": job.watch.group and job.of_kind().needs_group},
        "secrets": {
            **dict.fromkeys(job.env_from, secret_env.INVENTORY),
            **dict.fromkeys(job.secrets, secret_env.JOB_FILE),
        },
        "stack": stack["name"],
        "backend": stack["backend"],
        "precision": choose_precision(job.precision, {host["host"]: host["isa"] for host in hosts}),
        "head": run.settings.head,
        "head_interface": run.settings.head_interface or hosts[0]["interface"],
        "shared_directory": run.settings.shared_directory,
        "master_addr": hosts[0]["address"],
        "environment": env,
        "bindings": intel_mpi.bindings_folder(stack),
        "mpi": dict(stack.get("mpi", {})),
        "env_launcher": dict(job.env_launcher),
        "world_size": 0,
        "hosts": [],
    }
    for host in hosts:
        allocation = host["allocation"]
        plan["hosts"].append(
            {
                **{key: host[key] for key in ("host", "address", "interface", "isa")},
                "amx": host.get("amx", ""),
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
                    "TOKENIZERS_PARALLELISM": "false",
                    # Models and data are there before the job starts; ranks must not each look for them on the network.
                    "HF_HUB_OFFLINE": "1",
                    **job.env,
                },
                "ranks": allocation["ranks"],
                "threads_per_rank": allocation["threads_per_rank"],
                "map": CoreMap.from_json(allocation["core_map"]).letters(),
                "warnings": allocation.get("warnings", []),
            }
        )
    contradiction = launcher.contradiction(plan)
    if contradiction:
        raise ValueError(contradiction)
    return _numbered(plan)


def on_hosts(plan: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the plan for those of its hosts that are named, in its own order, its ranks counted anew.

    Each host's allocation stays as it is. Raises ValueError when none is left.
    """
    hosts = [host for host in plan["hosts"] if host["host"] in names]
    if not hosts:
        raise ValueError("no host is left to run the job on")
    return _numbered({**plan, "master_addr": hosts[0]["address"], "hosts": hosts})


def _numbered(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan with its ranks counted over the whole group, and every host set to the first one's address."""
    hosts, size = [], 0
    for host in plan["hosts"]:
        ranks = [{**rank, "rank": size + place} for place, rank in enumerate(host["ranks"])]
        env = {**host["env"], "MASTER_ADDR": plan["master_addr"]}
        hosts.append({**host, "first_rank": size, "ranks": ranks, "env": env})
        size += len(ranks)
    return {**plan, "world_size": size, "hosts": hosts}
