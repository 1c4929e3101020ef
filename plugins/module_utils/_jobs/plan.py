# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a job: what every rank of it is set to, made once for the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, fabrics
from ansible_collections.amx.cluster.plugins.module_utils._jobs import secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi

# The package of the role's files that brings the backend mpi.
MPI_PACKAGE = "amx_cluster_mpi"


def choose_precision(wanted: str, isas: Mapping[str, str]) -> str:
    """Return "bf16" or "fp32" for a job that requests "auto", "bf16" or "fp32".

    isas: {host: best instruction set, as amx.best_isa names it}. auto is bf16 when every host multiplies bfloat16
    matrices in hardware, else fp32: one host that must emulate it would hold up all the others.
    """
    if wanted != "auto":
        return wanted
    return "bf16" if all(isa in amx.BF16_ISAS for isa in isas.values()) else "fp32"


def make_plan(
    run: Run, stack: Mapping[str, Any], env: str, hosts: Sequence[Mapping[str, Any]], fabric: str = fabrics.AUTO
) -> dict[str, Any]:
    """Return what each rank of a job is set to.

    stack: an entry of the catalogue. env: the path of the virtual environment, the same on every host. hosts: in the
    order of the hostfile, each {host, address, interface, isa, amx, allocation, tcmalloc}: amx is the reason of
    amx.judge, the allocation as the module core_allocation returns it; tcmalloc is where the host's loader finds it,
    empty or left out for none; fabric, where the host has one, is what fabrics.lacking reads. fabric: the inventory's
    cluster_fabric.

    Returns {job, kind, launcher, watch, secrets, world_size, backend, precision, head, head_interface, master_addr,
    bindings, hosts: [{host, address, interface, first_rank, env, ranks: [{rank, env, compute_cpus, comm_cpus, ...}]}]};
    `rank` counts over the whole group, `env` of a host is what all its ranks are set to and `env` of a rank its own.
    `secrets` has the names of further variables of all ranks, each with where its value comes from. `fabric`, {name,
    note, env}, is there only when it is not plain tcp, `project`, as Settings has it, only for a job with one, and
    `measure`, as Job has it, only for a job that is to be measured.
    Raises ValueError when the stack or the launcher does not have the job's backend, a host does not have the fabric,
    or the launcher does not work with what the job sets it to.
    """
    job = run.job
    launcher = LAUNCHERS[job.launcher]
    backend = run.backend(stack["backend"])
    if job.gradient_compression != "none" and backend != "mpi":
        raise ValueError(
            f"gradient_compression: {job.gradient_compression} needs backend mpi, and this job has {backend}: leave it "
            "out"
        )
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
        "backend": backend,
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
    if job.measure:
        plan["measure"] = asdict(job.measure)
    if run.settings.project:
        plan["project"] = dict(run.settings.project)
    chosen = _fabric(fabric, hosts, plan["backend"])
    if chosen:
        plan["fabric"] = chosen
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
                    **_of_backend(backend, stack, host["interface"]),
                    **_of_compression(job.gradient_compression),
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


def _of_backend(backend: str, stack: Mapping[str, Any], interface: str) -> dict[str, str]:
    """Return the variables of ranks with this backend; AMX_CLUSTER_BINDINGS is the module that registers it."""
    if backend == "ccl":
        return {"CCL_KVS_IFACE": interface, "AMX_CLUSTER_BINDINGS": stack["bindings"]}
    return {"AMX_CLUSTER_BINDINGS": MPI_PACKAGE} if backend == "mpi" else {}


def _of_compression(wanted: str) -> dict[str, str]:
    return {"AMX_CLUSTER_GRADIENT_COMPRESSION": wanted} if wanted != "none" else {}


def _fabric(wanted: str, hosts: Sequence[Mapping[str, Any]], backend: str) -> dict[str, Any]:
    """Return {name, note, env} of a plan's fabric; empty where it is tcp and there is nothing to say about it."""
    facts = {host["host"]: host.get("fabric") or {} for host in hosts}
    choice = fabrics.choose(wanted, facts, backend, backend in intel_mpi.MPI_BACKENDS)
    if choice == fabrics.Choice(fabrics.TCP):
        return {}
    return {"name": choice.name, "note": choice.note, "env": intel_mpi.fabric_environment(choice.name, backend)}


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
