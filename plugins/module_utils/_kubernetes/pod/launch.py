# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start of a pod: its plan, by the CPUs that it has, and the command that starts its ranks."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores import memory, topology
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, cluster_network, facts, loader
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, checkpoints
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer, make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import script_words
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import cores, rounds
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import (
    Job,
    Places,
    make_directory,
    say,
)

# What make_plan returned for this pod, before it is known how many pods there are.
OWN_PLAN = "pod.json"
# How long pods wait for the first of them.
START_SECONDS = 3600


def host_of_pod(pod: str, allocation: Mapping[str, Any]) -> dict[str, Any]:
    """Return this pod as a host of a plan: its address and interface, its instruction set, its allocator."""
    network = cluster_network.interface(facts.addresses(), os.environ.get("AMX_CLUSTER_NETWORK", ""))
    judgement = amx.judge(**amx.probe())
    return {
        "host": pod,
        "address": network["address"],
        "interface": network["interface"],
        "isa": judgement["isa"],
        "amx": judgement["reason"],
        "allocation": allocation,
        "tcmalloc": loader.tcmalloc(),
    }


def own_plan(run: Run, stack: Mapping[str, Any], places: Places, host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of this pod alone: what its ranks are set to, whatever their numbers will be."""
    plan = make_plan(run, stack, str(places.env), [Answer.from_json(host)])
    # Secrets are in the environment of the container, and output is on the volume that all pods have.
    return replace(plan, runtime=str(places.programs), secrets={}, shared_directory=True).to_json()


def complete(plan: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan of this start: a pod's own, with the ranks' numbers and the size that torchrun found.

    The ranks of all other pods are one entry, without a name: they write to the same directory. Raises ValueError
    where torchrun did not start this process.
    """
    try:
        rank, size, local = (int(environ[name]) for name in plan["launcher"]["rank_variables"])
        master = environ["MASTER_ADDR"]
    except (KeyError, ValueError):
        raise ValueError("this is not a process that torchrun started: a pod runs pod train") from None
    own = plan["hosts"][0]
    first = rank - local
    ranks = [{**each, "rank": first + place} for place, each in enumerate(own["ranks"])]
    numbers = {each["rank"] for each in ranks}
    others = [{"rank": number, "env": {}} for number in range(size) if number not in numbers]
    host = {**own, "first_rank": first, "ranks": ranks, "env": {**own["env"], "MASTER_ADDR": master}}
    rest = {**own, "host": "", "address": "", "env": {}, "ranks": others, "warnings": []}
    return {**plan, "world_size": size, "master_addr": master, "hosts": [host, *([rest] if others else [])]}


def first_pod(derived: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, int]:
    """Return the name and the port at which the pods meet.

    What an operator has set is taken: PET_RDZV_ENDPOINT (training operator), PET_MASTER_ADDR and PET_MASTER_PORT
    (trainer). Else it is what was derived.
    """
    endpoint = environ.get("PET_RDZV_ENDPOINT", "")
    if endpoint:
        name, _colon, port = endpoint.rpartition(":")
        return name, int(port)
    if environ.get("PET_MASTER_ADDR"):
        return environ["PET_MASTER_ADDR"], int(environ.get("PET_MASTER_PORT", derived["port"]))
    return str(derived["first_pod"]), int(derived["port"])


def number_of(derived: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Return this pod's number. Raises ValueError where it has none."""
    index = environ.get("AMX_CLUSTER_INDEX", "")
    if not index.isdigit():
        raise ValueError(f"AMX_CLUSTER_INDEX is {index!r}: this pod was given no number by a {derived['kind']}")
    return int(index)


def rendezvous(
    derived: Mapping[str, Any], start: str, environ: Mapping[str, str], address: str, restarts: int
) -> list[str]:
    """Return the options by which torchrun finds the other pods. address: this pod's. restarts: those that are left.

    The first pod waits for the others at its address: it need not find its own name. PET_NNODES is an operator's.
    """
    least, pods = derived["least_pods"], derived["pods"]
    nodes = environ.get("PET_NNODES") or (f"{least}:{pods}" if least < pods else str(pods))
    name, port = first_pod(derived, environ)
    is_first = number_of(derived, environ) == 0
    return [
        f"--nnodes={nodes}",
        "--rdzv_backend=c10d",
        f"--rdzv_endpoint={address if is_first else name}:{port}",
        f"--rdzv_id={derived['name']}-{start}",
        f"--rdzv_conf=is_host={'true' if is_first else 'false'},join_timeout=3600,last_call_timeout=30",
        f"--max_restarts={restarts}",
        f"--local_addr={address}",
    ]


def wait_for_first_pod(
    name: str, port: int, seconds: float = START_SECONDS, every: float = 2, is_over: Callable[[], bool] = bool
) -> None:
    """Wait until the first pod accepts connections, or is_over: torchrun itself would give up after a minute.

    Raises ValueError, with the reason, when it has not for so many seconds: nodes may have to pull the image first.
    """
    until, reported, reason = time.monotonic() + seconds, time.monotonic(), ""
    while not is_over():
        try:
            with socket.create_connection((name, port), timeout=5):
                return
        except OSError as error:
            reason = error.strerror or str(error)
        now = time.monotonic()
        if now > until:
            raise ValueError(f"the first pod has not answered at {name}:{port} for {seconds:.0f} s ({reason})")
        if now - reported > 60:
            reported = now
            say(f"waiting for the first pod at {name}:{port} ({reason})")
        time.sleep(every)


@dataclass(frozen=True)
class Start:
    """Command of a pod that starts its ranks. here: its job directory. host: as a plan has it. plan: of this pod
    alone."""

    job: Job
    here: Path
    number: int
    pod: str
    node: str
    plan: dict[str, Any]
    ranks: int

    def command(self, places: Places, environ: Mapping[str, str], restarts: int) -> list[str]:
        """Return the command that starts the ranks, again as often as `restarts`."""
        address = self.plan["hosts"][0]["address"]
        python = f"{places.env}/bin/python"
        return [
            *(python, "-m", "torch.distributed.run", f"--nproc_per_node={self.ranks}"),
            *rendezvous(self.job.derived, self.job.run.settings.start, environ, address, restarts),
            *("--no_python", python, "-S", str(places.programs), "pod", "rank"),
        ]


def start_of(places: Places, job: Job, stack: Mapping[str, Any], environ: Mapping[str, str]) -> Start:
    """Plan this pod's ranks. Raises ValueError where its CPUs cannot have them, or this pod has no number."""
    pod, node = environ[POD], environ.get("AMX_CLUSTER_NODE", "unknown")
    number = number_of(job.derived, environ)
    here = make_directory(places, job)
    machine, quota = topology.read(), topology.cpu_quota(Path("/"))
    cpus = cores.cpus_of(machine, quota)
    wanted = job.run.job
    request = Request(
        wanted.ranks_per_node,
        job.derived["backend"],
        wanted.comm_cores,
        wanted.reserved_cores,
        wanted.threads_per_core,
    )
    made = cores.allocate_pod(machine, request, cpus)
    if cpus.state != cores.FLOATING:
        made = {**made, "memory": memory.read(Path("/")).to_json()}
    ranks = made["ranks_per_node"]
    say(f"pod {pod} on node {node}: {cores.describe(cpus, made, machine)}")
    warnings = [*cores.warning(cpus, job.derived["ranks"], ranks), *made["warnings"]]
    host = host_of_pod(pod, made)
    if wanted.precision == "bf16" and host["isa"] not in amx.BF16_ISAS:
        warnings.append(f"bf16 is emulated here: this CPU's best instruction set is {host['isa']}")
    for text in warnings:
        say(f"warning: {text}")
    plan = own_plan(job.run, stack, places, host)
    write_json(here / OWN_PLAN, {"plan": plan, "stack": stack})
    return Start(job, here, number, pod, node, plan, ranks)


def for_torchrun(places: Places, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of torchrun: what operators have set for it is in its options.

    The variable of IPEX is the image's, for manifests of one's own: here the plan decides.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith("PET_")}
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "LD_LIBRARY_PATH": f"{places.env}/lib",
        # A new store for every start: in the agents' shared one, ranks find addresses that a killed process has left
        # (torch 2.13), and a fault takes two restarts.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def rank(places: Places, here: Path, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Write the plan of this start; return the command that becomes the rank, and its environment. Raises ValueError.

    The first rank of a pod makes the start known to the other pods, see rounds.py.
    """
    job = Job.read(here)
    own = read_json(here / OWN_PLAN) or {}
    plan = complete(own["plan"], environ)
    write_json(here / "plan.json", plan)
    kept = job.kept(places)
    endpoint = rounds.endpoint(kept)
    if environ[plan["launcher"]["rank_variables"][2]] == "0":
        unreachable = rounds.unreachable(endpoint)
        if unreachable:
            say(f"warning: {unreachable}; its ranks train, and the job's status does not show them")
        rounds.announce(kept, here, plan, environ, unreachable)
    arguments = {}
    if job.run.job.of_kind().can_resume:
        last = checkpoints.last_complete(here / "output")
        if last:
            arguments = {"resume_from_checkpoint": f"output/{last.name}"}
    words = script_words(Plan.from_json(plan), job.run, own["stack"], arguments)
    # Every rank has the endpoint, also where it cannot be reached: they tell their starts apart by it.
    return archive.command(plan, "rank", *words), {**environ, "AMX_CLUSTER_BEAT": endpoint}
