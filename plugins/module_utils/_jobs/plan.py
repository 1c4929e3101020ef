# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a job: what every rank of it is set to, made once for the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.memory import Memory
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx, fabrics
from ansible_collections.amx.cluster.plugins.module_utils._jobs import on_end, secret_env, trackers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import Measure, Watch
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import (
    BINDINGS,
    COMPRESSION,
    MPI,
    OPTIMIZE,
    SHARDING,
)
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, intel_mpi

OPTIONAL = ("measure", "project", "fabric", "memory", "notices")
"""Fields of a plan that plan.json has where they are set."""

CORES_OF_ONECCL = {
    "CCL_WORKER_COUNT": "set comm_cores instead",
    "CCL_WORKER_AFFINITY": "leave it out",
}
"""What only the allocation sets, and what to do. oneCCL refuses a list of another length than workers of the host, and
accelerate up to 1.12 takes ccl wherever there are workers."""


@dataclass(frozen=True)
class Rank:
    """A rank of a plan, or of a host's allocation. The module core_allocation documents the fields.

    rank: its number, in a plan over the whole group. env: what it is set to beside its host's. memory: what
    Memory.policy returned.
    """

    rank: int = 0
    numa_nodes: list[int] = field(default_factory=list)
    sockets: list[int] = field(default_factory=list)
    compute_cpus: list[int] = field(default_factory=list)
    comm_cpus: list[int] = field(default_factory=list)
    domain_cpus: list[int] = field(default_factory=list)
    domain_mask: str = ""
    env: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a host has answered for a plan: its network, its instruction sets, its installation and its cores.

    isa: its best instruction set, as amx.best_isa names it; amx: the reason of amx.judge. fabric: what fabrics.lacking
    reads, where the host has one. venv: the path of its virtual environment, tcmalloc: where its loader finds that
    allocator; empty for none. ranks, env, threads_per_rank, core_map (None where nothing was requested), memory and
    warnings are those of its allocation, and refusal is why it has none.
    """

    host: str
    address: str = ""
    interface: str = ""
    isa: str = ""
    amx: str = ""
    fabric: dict[str, Any] = field(default_factory=dict)
    venv: str = ""
    tcmalloc: str = ""
    ranks: list[Rank] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    threads_per_rank: int = 0
    core_map: CoreMap | None = None
    memory: Memory = field(default_factory=Memory)
    warnings: list[str] = field(default_factory=list)
    refusal: str = ""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Answer:
        """Return the answer that a host's facts and the module job_host_info give, with `host`, its name."""
        allocation = content.get("allocation") or {}
        drawn = allocation.get("core_map")
        texts = ("host", "address", "interface", "isa", "amx", "venv", "tcmalloc")
        return cls(
            **{name: content[name] or "" for name in texts if name in content},
            fabric=content.get("fabric") or {},
            ranks=[Rank(**_known(Rank, rank)) for rank in allocation.get("ranks", [])],
            env=allocation.get("env", {}),
            threads_per_rank=allocation.get("threads_per_rank", 0),
            core_map=CoreMap.from_json(drawn) if drawn else None,
            memory=Memory.from_json(allocation.get("memory", {})),
            warnings=allocation.get("warnings", []),
            refusal=allocation.get("msg", ""),
        )


@dataclass(frozen=True)
class Host:
    """A host of a plan. env: what all its ranks are set to. first_rank: the number of its first rank in the group.

    map: the letters of its cores, as CoreMap.letters returns them.
    """

    host: str
    address: str = ""
    interface: str = ""
    isa: str = ""
    amx: str = ""
    env: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    threads_per_rank: int = 0
    map: dict[str, Any] = field(default_factory=lambda: {"rows": [], "offline": ""})
    warnings: list[str] = field(default_factory=list)
    first_rank: int = 0


@dataclass(frozen=True)
class Fabric:
    """The fabric of a plan that is not plain tcp: its name, what is to be said about it, and what selects it."""

    name: str
    note: str = ""
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What each rank of a job is set to: plan.json in the job directory, which programs of the hosts read.

    launcher: Launcher.for_ranks. secrets: names of further variables of all ranks, each with where its value comes
    from. stack: the name of the catalogue's entry. head, head_interface, shared_directory: as run.Settings has them.
    environment: the path of the virtual environment, the same on every host. bindings: the directory of the MPI
    run time; mpi: what the stack sets for it. hosts: in the order of the hostfile. project: as run.Settings has it.
    memory: what memory_check.check returned. notices: as run.Settings has it.
    """

    job: str = ""
    kind: str = ""
    launcher: dict[str, Any] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    secrets: dict[str, str] = field(default_factory=dict)
    stack: str = ""
    backend: str = ""
    precision: str = ""
    head: str = ""
    head_interface: str = ""
    shared_directory: bool = False
    master_addr: str = ""
    environment: str = ""
    bindings: str = ""
    mpi: dict[str, str] = field(default_factory=dict)
    env_launcher: dict[str, str] = field(default_factory=dict)
    world_size: int = 0
    hosts: list[Host] = field(default_factory=list)
    measure: Measure | None = None
    project: dict[str, Any] = field(default_factory=dict)
    fabric: Fabric | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    notices: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plan.json has it: without OPTIONAL ones where it has none."""
        content = asdict(self)
        return {name: value for name, value in content.items() if value or name not in OPTIONAL}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """Return the plan that to_json wrote; what an earlier version did not write has its default."""
        values = _known(cls, content)
        hosts = [
            Host(**{**_known(Host, host), "ranks": [Rank(**_known(Rank, rank)) for rank in host.get("ranks", [])]})
            for host in content.get("hosts", [])
        ]
        nested: dict[str, Any] = {
            name: made(**values[name])
            for name, made in (("watch", Watch), ("measure", Measure), ("fabric", Fabric))
            if values.get(name)
        }
        return cls(**{**values, "hosts": hosts, **nested})

    def optimized(self) -> list[str]:
        """Return the parts of a step that are computed faster than PyTorch does: see optimizing.py."""
        set_to = self.hosts[0].env.get(OPTIMIZE, "") if self.hosts else ""
        return [part for part in set_to.split(",") if part]

    def on_hosts(self, names: Sequence[str]) -> Plan:
        """Return the plan for those of its hosts that are named, in its own order, its ranks counted anew.

        Each host's allocation stays as it is. Raises ValueError when none is left.
        """
        hosts = [host for host in self.hosts if host.host in names]
        if not hosts:
            raise ValueError("no host is left to run the job on")
        return _numbered(replace(self, master_addr=hosts[0].address, hosts=hosts))


def _known(cls: type, content: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: content[each.name] for each in fields(cls) if each.name in content}


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
    backend = run.backend(stack["backend"])
    if job.gradient_compression != "none" and backend != "mpi":
        raise ValueError(
            f"gradient_compression: {job.gradient_compression} needs backend mpi, and this job has {backend}: leave it "
            "out"
        )
    for name in job.env:
        if name in CORES_OF_ONECCL:
            raise ValueError(
                f"env: {name} follows from the core allocation, or ranks do not start: {CORES_OF_ONECCL[name]}"
            )
    optimized = run.optimized(stack)
    if job.sharding != "none":
        arguments.sharding(job.sharding, stack["packages"]["transformers"])
        if job.args.get("load_best_model_at_end") and len(hosts) > 1 and not run.settings.shared_directory:
            raise ValueError(
                f"args: load_best_model_at_end: with sharding: {job.sharding}, each of {len(hosts)} hosts has a "
                "part of the best checkpoint: leave it out, or share cluster_prefix"
            )
    placed = {host.host: _with_memory(host, job.memory) for host in hosts}
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
        precision=choose_precision(job.precision, {host.host: host.isa for host in hosts}),
        head=run.settings.head,
        head_interface=run.settings.head_interface or hosts[0].interface,
        shared_directory=run.settings.shared_directory,
        master_addr=hosts[0].address,
        environment=env,
        bindings=intel_mpi.bindings_folder(stack),
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
                    **_of_backend(backend, stack, host.interface),
                    **({COMPRESSION: job.gradient_compression} if job.gradient_compression != "none" else {}),
                    **_of_sharding(job.sharding),
                    **({OPTIMIZE: ",".join(optimized)} if optimized else {}),
                    "TOKENIZERS_PARALLELISM": "false",
                    # Models and data are there before the job starts; ranks must not each look for them on the network.
                    "HF_HUB_OFFLINE": "1",
                    # Nothing is written into an environment of the user's own.
                    **({"PYTHONDONTWRITEBYTECODE": "1"} if stack.get("path") else {}),
                    **trackers.variables(job, run.settings.start),
                    **job.env,
                },
                ranks=placed[host.host][0],
                threads_per_rank=host.threads_per_rank,
                map=host.core_map.letters() if host.core_map else {"rows": [], "offline": ""},
                warnings=host.warnings + placed[host.host][1],
            )
            for host in hosts
        ],
        measure=job.measure,
        project=dict(run.settings.project),
        notices="" if launcher.elsewhere() else run.settings.notices,
        fabric=_fabric(fabric, hosts, backend),
    )
    contradiction = launcher.contradiction(plan)
    if contradiction:
        raise ValueError(contradiction)
    return _numbered(plan)


def _with_memory(host: Answer, wanted: str) -> tuple[list[Rank], list[str]]:
    """Return a host's ranks with their memory policies, and why there are none."""
    try:
        found = [host.memory.policy(wanted, rank.numa_nodes) for rank in host.ranks]
    except ValueError as error:
        raise ValueError(f"{host.host}: {error}") from None
    ranks = [replace(rank, memory=policy) for rank, (policy, _reason) in zip(host.ranks, found)]
    return ranks, list(dict.fromkeys(reason for _policy, reason in found if reason))


def _of_backend(backend: str, stack: Mapping[str, Any], interface: str) -> dict[str, str]:
    """Return the variables of ranks with this backend."""
    if backend == "ccl":
        return {"CCL_KVS_IFACE": interface, BINDINGS: stack["bindings"]}
    return {BINDINGS: MPI} if backend == "mpi" else {}


def _of_sharding(wanted: str) -> dict[str, str]:
    """Return the variables of ranks that shard their model.

    What is gathered of it comes and goes with each layer: malloc of glibc would keep that memory (see mallopt(3)).
    """
    return {SHARDING: wanted, "MALLOC_MMAP_THRESHOLD_": "1048576"} if wanted != "none" else {}


def _fabric(wanted: str, hosts: Sequence[Answer], backend: str) -> Fabric | None:
    """Return the fabric of a plan; None where it is tcp and there is nothing to say about it."""
    choice = fabrics.choose(
        wanted, {host.host: host.fabric for host in hosts}, backend, backend in intel_mpi.MPI_BACKENDS
    )
    if choice == fabrics.Choice(fabrics.TCP):
        return None
    return Fabric(choice.name, choice.note, intel_mpi.fabric_environment(choice.name, backend))


def _numbered(plan: Plan) -> Plan:
    """Return the plan with its ranks counted over the whole group, and every host set to the first one's address."""
    hosts, size = [], 0
    for host in plan.hosts:
        ranks = [replace(rank, rank=size + place) for place, rank in enumerate(host.ranks)]
        env = {**host.env, "MASTER_ADDR": plan.master_addr}
        hosts.append(replace(host, first_rank=size, ranks=ranks, env=env))
        size += len(ranks)
    return replace(plan, world_size=size, hosts=hosts)
