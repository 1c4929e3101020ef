# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a job: what every rank of it is set to, made once for the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi


def choose_precision(wanted: str, isas: Mapping[str, str]) -> str:
    """Return "bf16" or "fp32" for a job that wants `wanted` ("auto", "bf16" or "fp32").

    isas: {host: best instruction set, as amx.best_isa names it}. auto is bf16 when every host multiplies bfloat16
    matrices in hardware, else fp32: one host that must emulate it would hold up all the others.
    """
    if wanted != "auto":
        return wanted
    return "bf16" if all(isa in amx.BF16_ISAS for isa in isas.values()) else "fp32"


def make_plan(
    job: Mapping[str, Any],
    stack: Mapping[str, Any],
    env: str,
    hosts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Put together what each rank of a job is told.

    job: as job.Job has it. stack: an entry of the catalogue. env: the environment's folder, the same on every host.
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
        "bindings": intel_mpi.bindings_folder(stack),
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
