# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the plan of a job, once for the group, from what its hosts have answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.memory import Memory
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, fabrics
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    ipex,
    on_end,
    oneccl,
    optimizing,
    secret_env,
    trackers,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Fabric, Host, Plan, Rank, numbered
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import (
    BINDINGS,
    COMPRESSION,
    MPI,
    OPTIMIZE,
    SHARDING,
)
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, catalogue, intel_mpi


@dataclass(frozen=True)
class Answer(Document):
    """Answer of a host for a plan: its network, its instruction sets, its installation and its cores.

    isa: its best instruction set, as amx.best_isa names it; amx: the reason of amx.judge. fabric: what find_lack
    reads, where the host has one. venv: the path of its virtual environment, runtime: the directory of the
    programs that run ranks, tcmalloc: where its loader finds that allocator; empty for none. ranks, env,
    threads_per_rank, core_map (None where nothing was requested), memory and warnings are those of its allocation, and
    refusal is why it has none.
    """

    host: str
    address: str = ""
    interface: str = ""
    isa: str = ""
    amx: str = ""
    fabric: dict[str, Any] = field(default_factory=dict)
    venv: str = ""
    runtime: str = ""
    tcmalloc: str = ""
    ranks: list[Rank] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    threads_per_rank: int = 0
    core_map: CoreMap | None = None
    memory: Memory = field(default_factory=Memory)
    warnings: list[str] = field(default_factory=list)
    refusal: str = ""

    @classmethod
    def of_host(
        cls, host: str, answer: Mapping[str, Any], facts: Mapping[str, Any], network: Mapping[str, Any]
    ) -> Answer:
        """Return what a host has answered. answer: of the module job_host_info. facts: of host_info. network: its
        interface on the cluster network."""
        of_facts = {"isa": facts["isa"], "amx": facts["amx"]["reason"], "fabric": facts.get("fabric")}
        return cls.from_json({**answer, **of_facts, **network, "host": host})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Answer:
        """Return the answer with the allocation, if there is one, as the module job_host_info has it."""
        allocation = document.get("allocation") or {}
        facts = {name: value for name, value in document.items() if value is not None}
        return super().from_json({**facts, **allocation, "refusal": allocation.get("msg", "")})


def choose_precision(wanted: str, isas: Mapping[str, str]) -> str:
    """Return "bf16" or "fp32" for a job that requests "auto", "bf16" or "fp32".

    isas: {host: best instruction set, as amx.best_isa names it}. auto is bf16 when every host multiplies bfloat16
    matrices in hardware, else fp32: one host that must emulate it would hold up all the others.
    """
    if wanted != "auto":
        return wanted
    return "bf16" if all(isa in amx.BF16_ISAS for isa in isas.values()) else "fp32"


def make_plan(
    run: Run, stack: Mapping[str, Any], env: str, hosts: Sequence[Answer], fabric: str = fabrics.AUTO
) -> Plan:
    """Return what each rank of a job is set to.

    stack: an entry of the catalogue. env: the path of the virtual environment. hosts: in the order of the hostfile.
    fabric: the inventory's cluster_fabric.

    Raises ValueError when the stack or the launcher does not have the job's backend, a host does not have the fabric
    or the memory, or the launcher does not work with what the job sets it to.
    """
    job = run.job
    launcher = LAUNCHERS[job.launcher]
    backend = run.backend(catalogue.backend_key(stack))
    if job.gradient_compression != "none" and backend != "mpi":
        raise ValueError(
            f"gradient_compression: {job.gradient_compression} needs backend mpi, and this job has {backend}: leave it "
            "out"
        )
    for name in job.env:
        if name in oneccl.CORES:
            raise ValueError(
                f"env: {name} follows from the core allocation, or ranks do not start: {oneccl.CORES[name]}"
            )
    has_core = all(oneccl.has_worker(host.env) for host in hosts)
    refused = backend == "ccl" and oneccl.refusal(job.env, launcher.is_mpi, len(hosts), has_core)
    if refused:
        raise ValueError(refused)
    optimized = run.optimized(stack)
    if job.sharding != "none":
        arguments.sharding(job.sharding, stack["packages"]["transformers"])
        if job.args.get("load_best_model_at_end") and len(hosts) > 1 and not run.settings.shared_directory:
            raise ValueError(
                f"args: load_best_model_at_end: with sharding: {job.sharding}, each of {len(hosts)} hosts has a "
                "part of the best checkpoint: leave it out, or share cluster_prefix"
            )

    def of_oneccl(host: Answer) -> dict[str, str]:
        if backend != "ccl":
            return {}
        return oneccl.variables(stack["bindings"], env, bindings, host.interface, launcher.is_mpi)

    placed = {host.host: _with_memory(host, job.memory) for host in hosts}
    bindings = intel_mpi.bindings_folder(stack)
    precision = choose_precision(job.precision, {host.host: host.isa for host in hosts})
    # A pod plans for itself alone.
    several = sum(len(host.ranks) for host in hosts) > 1 or launcher.runtime != "hosts"
    plan = Plan(
        job=job.name,
        kind=job.kind,
        launcher=launcher.for_ranks(),
        watch=replace(job.watch, group=job.watch.group and job.of_kind().needs_group),
        secrets={
            **dict.fromkeys(job.env_from, secret_env.INVENTORY),
            **{name: secret_env.JOB_FILE for name in job.secrets if name != on_end.SECRET},
        },
        stack=stack["name"],
        backend=backend,
        precision=precision,
        head=run.settings.head,
        head_interface=run.settings.head_interface or hosts[0].interface,
        shared_directory=run.settings.shared_directory,
        master_addr=hosts[0].address,
        environment=env,
        bindings=bindings,
        mpi=dict(stack.get("mpi", {})),
        env_launcher=dict(job.env_launcher),
        hosts=[
            Host(
                host=host.host,
                address=host.address,
                interface=host.interface,
                isa=host.isa,
                amx=host.amx,
                env={
                    **host.env,
                    "LD_PRELOAD": ":".join(filter(None, [host.tcmalloc, f"{env}/lib/libiomp5.so"])),
                    "GLOO_SOCKET_IFNAME": host.interface,
                    "FI_TCP_IFACE": host.interface,
                    **({BINDINGS: MPI} if backend == "mpi" else {}),
                    **of_oneccl(host),
                    **({COMPRESSION: job.gradient_compression} if job.gradient_compression != "none" else {}),
                    **_of_sharding(job.sharding),
                    **({OPTIMIZE: ",".join(optimized)} if optimized else {}),
                    "TOKENIZERS_PARALLELISM": "false",
                    # Models and data are there before the job starts; ranks must not each look for them on the network.
                    "HF_HUB_OFFLINE": "1",
                    # Nothing is written into an environment of the user's own.
                    **({"PYTHONDONTWRITEBYTECODE": "1"} if stack.get("path") else {}),
                    **_of_accelerate(job),
                    **trackers.variables(job, run.settings.start),
                    **ipex.environment(job, stack),
                    **job.env,
                    **oneccl.with_libraries(of_oneccl(host), job.env),
                },
                ranks=placed[host.host][0],
                threads_per_rank=host.threads_per_rank,
                map=host.core_map.letters() if host.core_map else {"rows": [], "offline": ""},
                warnings=[*host.warnings, *placed[host.host][1], *_old_bindings(run, stack, backend)],
            )
            for host in hosts
        ],
        measure=job.measure,
        project=dict(run.settings.project),
        notices="" if launcher.elsewhere() else run.settings.notices,
        fabric=_fabric(fabric, hosts, backend, launcher.is_mpi),
        ipex=ipex.describe(job, stack, precision, several),
    )
    contradiction = launcher.contradiction(plan)
    if contradiction:
        raise ValueError(contradiction)
    return numbered(plan)


def _with_memory(host: Answer, wanted: str) -> tuple[list[Rank], list[str]]:
    """Return a host's ranks with their memory policies, and why there are none."""
    try:
        policies = [host.memory.policy(wanted, rank.numa_nodes) for rank in host.ranks]
    except ValueError as error:
        raise ValueError(f"{host.host}: {error}") from None
    ranks = [replace(rank, memory=policy) for rank, (policy, _reason) in zip(host.ranks, policies)]
    return ranks, list(dict.fromkeys(reason for _policy, reason in policies if reason))


def _old_bindings(run: Run, stack: Mapping[str, Any], backend: str) -> list[str]:
    """Return what a person should know where oneCCL is left out because of its version."""
    left_open = run.job.backend == run.settings.backend == "auto" and run.job.of_kind().communicates
    if left_open and backend != "ccl" and catalogue.backend_key(stack) == catalogue.CCL_BY_MPIRUN:
        return [oneccl.OLD_BINDINGS.format(launcher=run.job.launcher)]
    return []


def _of_accelerate(job: Job) -> dict[str, str]:
    """Return the variable by which accelerate, and so the Trainer, trains on all ranks, on CPUs.

    It is for scripts that read no arguments. Their precision stays what they set.
    """
    return {ipex.CPU: "true"} if job.kind in optimizing.TRAINING else {}


def _of_sharding(wanted: str) -> dict[str, str]:
    """Return the variables of ranks that shard their model.

    What is gathered of it comes and goes with each layer: malloc of glibc would keep that memory (see mallopt(3)).
    """
    return {SHARDING: wanted, "MALLOC_MMAP_THRESHOLD_": "1048576"} if wanted != "none" else {}


def _fabric(wanted: str, hosts: Sequence[Answer], backend: str, is_mpi: bool) -> Fabric | None:
    """Return the fabric of a plan; None where it is tcp and there is nothing to say about it."""
    uses_it = is_mpi and backend in intel_mpi.MPI_BACKENDS
    choice = fabrics.choose(wanted, {host.host: host.fabric for host in hosts}, backend, uses_it)
    if choice == fabrics.Choice(fabrics.TCP):
        return None
    return Fabric(choice.name, choice.note, intel_mpi.fabric_environment(choice.name, backend))
