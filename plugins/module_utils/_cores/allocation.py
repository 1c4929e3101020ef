# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which core of a node does what: a topology and a request become a plan.

The plan divides the node's usable cores into compute and communication cores of each rank and cores of the system,
and derives the environment that makes it so. docs/core_allocation.md explains it; the laws it keeps are the tests'
names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Core, Topology, format_cpus

BACKENDS = ("ccl", "gloo", "mpi")
USUAL_COMM_CORES = {"ccl": 1, "gloo": 0, "mpi": 0}
CORES_PER_COMM_CORE = 12
"""With backend mpi and comm_cores=auto, a rank of at least so many cores gives one to communication.

By the model of a step (_measure/step_model.py; tests/unit/tools/test_step_table.py): from so many cores on, no case
loses more than 5 % by it, and most gain.
"""
CORES_PER_RESERVED_CORE = 10
"""With reserved_cores=auto, a NUMA node with at least so many usable cores gives one to the system."""

PER_PLACE = ("auto", "socket")
"""Values of ranks_per_node that give each NUMA node, or each socket, one rank."""

KMP_BLOCKTIME_MS = 1
"""How long an idle OpenMP thread spins, in ms, as in Intel's launchers; the default of 200 starves other threads."""


@dataclass(frozen=True)
class Request:
    """Requested ranks, cores and threads of each node; numbers may be given as text, as Ansible does.

    ranks_per_node: a number, `auto` (one per NUMA node with usable cores), `socket` (one per socket with such) or `<=N`
    (N, or as many as fit).
    comm_cores: communication cores of each rank; `auto` is 1 for ccl, 0 for gloo, and for mpi 1 where a rank has
    CORES_PER_COMM_CORE cores.
    reserved_cores: cores of the node kept for the system; `auto` is one of each NUMA node with ten or more.
    threads_per_core: OpenMP threads on each compute core, a number or `all`.
    exchanging_hosts: how many hosts have ranks that exchange tensors, 0 where none do; of one, only several ranks do.
    """

    ranks_per_node: int | str = "auto"
    backend: str = "gloo"
    comm_cores: int | str = "auto"
    reserved_cores: int | str = "auto"
    threads_per_core: int | str = 1
    exchanging_hosts: int = 2


@dataclass(frozen=True)
class Rank:
    """The share of one rank. CPUs are those it runs on: one of each core, or more with threads_per_core above 1."""

    rank: int
    compute_cores: tuple[Core, ...]
    comm_cores: tuple[Core, ...]
    compute_cpus: tuple[int, ...]
    comm_cpus: tuple[int, ...]
    domain_cpus: tuple[int, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes of its cores."""
        return tuple(sorted({core.node for core in self.compute_cores + self.comm_cores}))

    @property
    def sockets(self) -> tuple[int, ...]:
        """The sockets of its cores."""
        return tuple(sorted({core.socket for core in self.compute_cores + self.comm_cores}))

    @property
    def domain_mask(self) -> str:
        """Return the domain as I_MPI_PIN_DOMAIN takes it: hexadecimal, bit n is CPU n."""
        return hex(sum(1 << cpu for cpu in self.domain_cpus))


@dataclass(frozen=True)
class Allocation:
    """Assignment of each core of a node to ranks or the system. `reserved_cores` and `remainder_cores` together are the
    system's."""

    topology: Topology
    backend: str
    comm_cores: int
    threads_per_core: int
    ranks: tuple[Rank, ...]
    reserved_cores: tuple[Core, ...]
    remainder_cores: tuple[Core, ...]
    env: Mapping[str, str]
    warnings: tuple[str, ...]

    @property
    def system_cores(self) -> tuple[Core, ...]:
        """Return every core that no rank has."""
        return tuple(sorted(self.reserved_cores + self.remainder_cores, key=lambda core: core.cpus[0]))

    @property
    def threads_per_rank(self) -> int:
        """OMP_NUM_THREADS, the same for every rank of the node."""
        return len(self.ranks[0].compute_cpus)

    @property
    def unused_cpus(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(reason, CPUs) for the CPUs on which neither a rank nor the system is meant to run."""
        busy = {cpu for rank in self.ranks for cpu in rank.compute_cpus + rank.comm_cpus}
        of_ranks = {cpu for rank in self.ranks for core in rank.compute_cores + rank.comm_cores for cpu in core.cpus}
        idle = tuple(sorted(of_ranks - busy))
        siblings = (f"further thread of a rank's core (threads_per_core={self.threads_per_core})", idle)
        return self.topology.excluded + ((siblings,) if idle else ())

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data: the return value of the module core_allocation, which documents it."""
        return {
            "ranks_per_node": len(self.ranks),
            "threads_per_rank": self.threads_per_rank,
            "backend": self.backend,
            "comm_cores": self.comm_cores,
            "reserved_cores": len(self.reserved_cores),
            "threads_per_core": self.threads_per_core,
            "ranks": [
                {
                    "rank": rank.rank,
                    "numa_nodes": list(rank.numa_nodes),
                    "sockets": list(rank.sockets),
                    "compute_cpus": list(rank.compute_cpus),
                    "comm_cpus": list(rank.comm_cpus),
                    "domain_cpus": list(rank.domain_cpus),
                    "domain_mask": rank.domain_mask,
                    "env": dict(rank.env),
                }
                for rank in self.ranks
            ],
            "system_cpus": sorted(cpu for core in self.system_cores for cpu in core.cpus),
            "remainder_cpus": sorted(cpu for core in self.remainder_cores for cpu in core.cpus),
            "unused_cpus": [{"reason": reason, "cpus": list(cpus)} for reason, cpus in self.unused_cpus],
            "env": dict(self.env),
            "topology": self.topology.summary(),
            "warnings": list(self.warnings),
        }


def allocate(topology: Topology, request: Request) -> Allocation:
    """Return the allocation of one node.

    Raises ValueError, stating the request, what the node has and the nearest requests that fit, if the request is not
    well formed or the node cannot satisfy it.
    """
    demand = _Asked(topology, request)
    shares = demand.settle()
    threads = demand.threads_per_core
    ranks = tuple(
        _rank(number, compute, comm, request.backend, threads) for number, (compute, comm) in enumerate(shares.ranks)
    )
    reserved, remainder = shares.system[: shares.reserved], shares.system[shares.reserved :]
    warnings = [*topology.warnings, *demand.warnings(shares)]
    return Allocation(
        topology,
        request.backend,
        demand.comm_cores,
        threads,
        ranks,
        tuple(reserved),
        tuple(remainder),
        _env(ranks, request.backend, demand.comm_cores, threads),
        tuple(warnings),
    )


# The environment


def _rank(number: int, compute: list[Core], comm: list[Core], backend: str, threads: int) -> Rank:
    compute_cpus = tuple(sorted(cpu for core in compute for cpu in core.cpus[:threads]))
    shared = backend == "gloo" and bool(comm)
    # A worker of oneCCL or MPI is one thread, which wants a core for itself; gloo's may use all that a domain offers.
    comm_cpus = tuple(sorted(cpu for core in comm for cpu in core.cpus[: threads if shared else 1]))
    domain = tuple(sorted(compute_cpus + comm_cpus)) if shared else compute_cpus
    env = {}
    if shared:
        # The domain holds more CPUs than there are OpenMP threads: name the ones these are bound to, so that the
        # others stay free for gloo's threads, which nothing binds.
        places = ",".join(str(cpu) for cpu in compute_cpus)
        env["KMP_AFFINITY"] = f"granularity=fine,proclist=[{places}],explicit"
    if backend == "mpi" and comm:
        # The collectives run in a thread of their own, which the backend pins there.
        env["AMX_CLUSTER_MPI_CPUS"] = ",".join(str(cpu) for cpu in comm_cpus)
    return Rank(number, tuple(compute), tuple(comm), compute_cpus, comm_cpus, domain, env)


def _env(ranks: tuple[Rank, ...], backend: str, comm_cores: int, threads: int) -> dict[str, str]:
    """Return the environment that is the same for every rank of the node. Semantics: docs/core_allocation.md, "The
    environment"."""
    env = {
        "OMP_NUM_THREADS": str(len(ranks[0].compute_cpus)),
        "KMP_HW_SUBSET": f"{threads}T",
        "KMP_BLOCKTIME": str(KMP_BLOCKTIME_MS),
        "I_MPI_PIN_DOMAIN": f"[{','.join(rank.domain_mask for rank in ranks)}]",
    }
    if not any("KMP_AFFINITY" in rank.env for rank in ranks):
        env["KMP_AFFINITY"] = "granularity=fine,compact,1,0"
    if backend == "ccl":
        # Without a worker's core there is no worker, and the count, by which accelerate knows ccl, is of one.
        env["CCL_WORKER_COUNT"] = str(comm_cores or 1)
        if comm_cores:
            env["CCL_WORKER_AFFINITY"] = ",".join(str(cpu) for rank in ranks for cpu in rank.comm_cpus)
        else:
            env["CCL_WORKER_OFFLOAD"] = "0"
    return env


# The request


@dataclass(frozen=True)
class _Shares:
    """Cores dealt out: (compute, communication) cores of each rank, and the system's, its reserved ones first."""

    ranks: list[tuple[list[Core], list[Core]]]
    system: list[Core]
    reserved: int


def _nodes_of_ranks(shares: _Shares) -> list[set[int]]:
    return [{core.node for core in compute + comm} for compute, comm in shares.ranks]


class _Asked:
    """A request read against a topology: numbers for words, and messages that name both."""

    def __init__(self, topology: Topology, request: Request) -> None:
        self.topology = topology
        self.request = request
        self.cores = topology.usable_cores
        if request.backend not in BACKENDS:
            either = [f"backend={backend}" for backend in BACKENDS]
            raise self._refusal(f"backend={request.backend!r} is not one of {', '.join(BACKENDS)}", either)
        if not self.cores:
            raise ValueError(f"No rank can be placed. {topology.describe()} No request fits.")
        self.threads_per_core = self._threads()
        self.nodes = len({core.node for core in self.cores})
        self.sockets = len({core.socket for core in self.cores})
        self.ranks, self.fewer_ranks_will_do = self._ranks()
        self.reserved, self.less_reserve_will_do = self._reserved()
        self.comm_cores = self._comm()

    def settle(self) -> _Shares:
        """The shares that satisfy the request; raises ValueError with the nearest requests if there are none."""
        least_ranks = 1 if self.fewer_ranks_will_do else self.ranks
        for ranks in range(min(self.ranks, len(self.cores)), least_ranks - 1, -1):
            for reserved in range(self.reserved, -1 if self.less_reserve_will_do else self.reserved - 1, -1):
                shares = self._deal(ranks, self.comm_cores, reserved)
                if shares:
                    return shares
        raise self._refusal(*self._what_does_not_fit())

    def warnings(self, shares: _Shares) -> Iterator[str]:
        """Return warnings about an allocation that was made."""
        ranks = len(shares.ranks)
        wanted = self.request.ranks_per_node
        if ranks < self.ranks and wanted in PER_PLACE:
            places = f"{self.nodes} NUMA nodes" if wanted == "auto" else f"{self.sockets} sockets"
            yield f"ranks_per_node={wanted} gives {ranks}: one for each of {places} does not fit. " + (
                self.topology.describe()
            )
        remainder = shares.system[shares.reserved :]
        if remainder:
            yield self._about_remainder(remainder, ranks, shares.reserved)
        for number, spanned in enumerate(_nodes_of_ranks(shares)):
            if len(spanned) > 1:
                yield (
                    f"rank {number} spans NUMA nodes {format_cpus(spanned)}, so part of its memory is remote to "
                    f"each of its threads; ranks_per_node={self.nodes} would keep each rank within one"
                )

    def _about_remainder(self, remainder: list[Core], ranks_per_node: int, reserved: int) -> str:
        of_socket = ranks_per_node >= self.sockets
        within = "one NUMA node" if ranks_per_node >= self.nodes else "one socket" if of_socket else ""
        text = (
            f"{len(remainder)} of {len(self.cores)} usable cores left over (CPUs "
            f"{format_cpus(core.cpus[0] for core in remainder)}) and given to the system: "
        )
        if all(not _is_full(core, self.threads_per_core) for core in remainder):
            return text + (
                "no rank computes on small cores"
                if self.threads_per_core == 1
                else f"no rank computes on small cores or those with fewer than {self.threads_per_core} usable CPUs"
            )
        text += "each rank has as many compute cores as the others"
        text += f" and lies within {within}" if within else ""
        even = (
            other for step in range(1, ranks_per_node + 1) for other in (ranks_per_node - step, ranks_per_node + step)
        )
        for other in even:
            shares = self._deal(other, self.comm_cores, reserved) if other else None
            if shares and len(shares.system) == reserved and all(len(nodes) == 1 for nodes in _nodes_of_ranks(shares)):
                return f"{text}. ranks_per_node={other} would leave none"
        return text

    def _deal(self, ranks_per_node: int, comm: int, reserved: int) -> _Shares | None:
        return deal(self.cores, ranks_per_node, comm, reserved, self.threads_per_core)

    def _what_does_not_fit(self) -> tuple[str, list[str]]:
        ranks, comm, reserved = self.ranks, self.comm_cores, self.reserved
        need = ranks * (1 + comm) + reserved
        text = (
            f"ranks_per_node={self.request.ranks_per_node}, comm_cores={comm} and reserved_cores={reserved} ask for at "
            f"least {ranks} x (1 compute + {comm} communication) + {reserved} = {need} cores"
        )
        if need <= len(self.cores):
            text += (
                ", and each rank must have as many compute cores as the others and lie within one NUMA node or socket "
                "where there are no more of these than ranks"
            )
        return text, self._nearest()

    def _nearest(self) -> list[str]:
        """Return requests that fit and differ in one number; failing that, one that differs in several."""
        ranks, comm, reserved = self.ranks, self.comm_cores, self.reserved
        singles = (
            ("ranks_per_node", ((n, (n, comm, reserved)) for n in range(min(ranks, len(self.cores)), 0, -1))),
            ("comm_cores", ((n, (ranks, n, reserved)) for n in range(comm - 1, -1, -1))),
            ("reserved_cores", ((n, (ranks, comm, n)) for n in range(min(reserved, len(self.cores)) - 1, -1, -1))),
        )
        fits = []
        for name, candidates in singles:
            fit = next((number for number, numbers in candidates if self._deal(*numbers)), None)
            if fit is not None:
                fits.append(f"{name}={fit}")
        if fits:
            return fits
        for fewer_comm in (comm, USUAL_COMM_CORES[self.request.backend], 0):
            for fewer in range(min(ranks, len(self.cores)), 0, -1):
                if self._deal(fewer, fewer_comm, 0):
                    return [f"ranks_per_node={fewer}, comm_cores={fewer_comm}, reserved_cores=0"]
        return []

    def _refusal(self, text: str, nearest: list[str]) -> ValueError:
        fits = f"The nearest request that fits: {', or '.join(nearest)}" if nearest else "No request fits."
        return ValueError(f"{text}. {self.topology.describe()} {fits}")

    def _number(self, name: str, value: int | str, least: int, otherwise: str, nearest: int) -> int:
        text = str(value).strip()
        if not re.fullmatch(r"\d+", text) or int(text) < least:
            raise self._refusal(
                f"{name}={value} is not a whole number of at least {least}{otherwise}", [f"{name}={nearest}"]
            )
        return int(text)

    def _threads(self) -> int:
        most = self.topology.threads_per_core
        value = self.request.threads_per_core
        if value == "all":
            return most
        threads = self._number("threads_per_core", value, 1, " or 'all'", 1)
        if threads > most:
            raise self._refusal(
                f"threads_per_core={threads} is more than a core of this node offers", [f"threads_per_core={most}"]
            )
        return threads

    def _comm(self) -> int:
        value = self.request.comm_cores
        if value == "auto":
            exchange = self.request.exchanging_hosts > 1 or (self.request.exchanging_hosts and self.ranks > 1)
            each = (len(self.cores) - self.reserved) // self.ranks
            if self.request.backend == "mpi" and exchange and each >= CORES_PER_COMM_CORE:
                return 1
            return USUAL_COMM_CORES[self.request.backend]
        return self._number("comm_cores", value, 0, " or 'auto'", 0)

    def _ranks(self) -> tuple[int, bool]:
        value = str(self.request.ranks_per_node).strip()
        if value in PER_PLACE:
            return (self.nodes if value == "auto" else self.sockets), True
        at_most = value.startswith("<=")
        number = value[2:].strip() if at_most else value
        if not re.fullmatch(r"\d+", number) or int(number) < 1:
            raise self._refusal(
                f"ranks_per_node={value} is not a whole number of at least 1, 'auto', 'socket', or '<=N' for at most N",
                ["ranks_per_node=1"],
            )
        return int(number), at_most

    def _reserved(self) -> tuple[int, bool]:
        value = self.request.reserved_cores
        if value == "auto":
            sizes = Counter(core.node for core in self.cores)
            return sum(size >= CORES_PER_RESERVED_CORE for size in sizes.values()), True
        return self._number("reserved_cores", value, 0, " or 'auto'", 0), False


# Dealing out the cores


def deal(cores: tuple[Core, ...], ranks_per_node: int, comm: int, reserved: int, threads: int) -> _Shares | None:
    """Divide `cores` among `ranks_per_node` ranks. Each has `comm` communication cores and as many compute cores as
    possible, the same number for all, with at least `reserved` cores left for the system.

    Ranks compute on cores that are large and have `threads` usable CPUs, here called full; the others go to the
    system, then to communication. None if there is no such division.
    """
    full = frozenset(core.number for core in cores if _is_full(core, threads))
    if not full:  # a job confined to small cores
        full = frozenset(core.number for core in cores if len(core.cpus) >= threads)
    for compute in range(min(len(full) // ranks_per_node, (len(cores) - reserved) // ranks_per_node - comm), 0, -1):
        # Ranks that may cross a boundary are placed inside it where they can be. Where the small cores lie on the wrong
        # side of it for that, a larger share is worth more.
        for heed_every_boundary in (True, False) if len(full) < len(cores) else (True,):
            try:
                return _Dealer(cores, full, ranks_per_node, compute, comm, heed_every_boundary).deal(reserved)
            except _DoesNotFit:
                continue
    return None


def _is_full(core: Core, threads: int) -> bool:
    return not core.efficient and len(core.cpus) >= threads


class _DoesNotFit(Exception):
    pass


@dataclass
class _Group:
    """Cores within one boundary (a NUMA node, a socket, the machine), and the parts into which it divides them."""

    cores: list[Core]
    parts: list[_Group] = field(default_factory=list)
    ranks: int = 0
    """How many ranks lie wholly within it."""


class _Dealer:
    """One attempt at giving each rank `compute` full cores and `comm` cores of any kind."""

    def __init__(
        self,
        cores: tuple[Core, ...],
        full: frozenset[int],
        ranks: int,
        compute: int,
        comm: int,
        heed_every_boundary: bool,
    ) -> None:
        self.full, self.ranks, self.compute, self.comm = full, ranks, compute, comm
        within_node = ranks >= len({core.node for core in cores})
        within_socket = ranks >= len({core.socket for core in cores})
        # The boundary that no rank may cross comes first, so that a rank that has to cross one crosses the other.
        self.kept = within_node or within_socket
        levels: list[tuple[str, ...]] = [("socket",), ("node",)]
        if within_node and within_socket:
            levels = [("socket", "node")]
        elif within_node:
            levels.reverse()
        if not heed_every_boundary:
            levels = levels[: int(self.kept)]
        self.machine = _grouped(list(cores), levels)

    def deal(self, reserved: int) -> _Shares:
        """The shares; raises _DoesNotFit."""
        self._place(self.machine, self.ranks)
        if self.kept and sum(part.ranks for part in self.machine.parts) < self.ranks:
            raise _DoesNotFit
        system = self._take_for_system()
        ranks, rest = self._draw(self.machine, {core.number for core in system})
        if rest:
            raise _DoesNotFit
        ranks.sort(key=lambda rank: (rank[0][0].socket, rank[0][0].node, rank[0][0].cpus[0]))
        return _Shares(ranks, system, reserved)

    def _room(self, group: _Group) -> int:
        """Return how many ranks fit within a group."""
        full = sum(core.number in self.full for core in group.cores)
        return min(full // self.compute, len(group.cores) // (self.compute + self.comm))

    def _room_uncrossed(self, group: _Group) -> int:
        """Return how many ranks fit within a group if none crosses a boundary inside it."""
        return sum(self._room_uncrossed(part) for part in group.parts) if group.parts else self._room(group)

    def _place(self, group: _Group, ranks: int) -> None:
        """Decide how many ranks each part of a group holds.

        As many as possible, first where they need not cross a boundary inside the part, spread evenly.
        """
        group.ranks = ranks
        room = [self._room(part) for part in group.parts]
        uncrossed = [self._room_uncrossed(part) for part in group.parts]
        held = [0] * len(room)
        for _extra in range(min(ranks, sum(room))):
            open_parts = [index for index in range(len(room)) if held[index] < room[index]]
            best = min(
                open_parts,
                key=lambda part: (held[part] >= uncrossed[part], held[part], -len(group.parts[part].cores)),
            )
            held[best] += 1
        for part, count in zip(group.parts, held):
            self._place(part, count)

    def _take_for_system(self) -> list[Core]:
        """The cores that the ranks leave: the lowest of each NUMA node in turn, small ones first."""
        to_take = len(self.machine.cores) - self.ranks * (self.compute + self.comm)
        spare = _Spare(self.machine, self.full, self.compute, self.comm)
        system: list[Core] = []
        for kind in (False, True):
            waiting: dict[int, list[Core]] = {}
            for core in self.machine.cores:
                if (core.number in self.full) is kind:
                    waiting.setdefault(core.node, []).append(core)
            progress = True
            while progress and len(system) < to_take:
                progress = False
                for node in sorted(waiting):
                    lowest = next((core for core in waiting[node] if spare.can_go(core)), None)
                    if lowest and len(system) < to_take:
                        waiting[node].remove(lowest)
                        spare.take(lowest)
                        system.append(lowest)
                        progress = True
        return system

    def _draw(self, group: _Group, taken: set[int]) -> tuple[list[tuple[list[Core], list[Core]]], list[Core]]:
        """(shares of the group's ranks, cores left over for ranks that cross its boundary)."""
        if not group.parts:
            return self._draw_from([core for core in group.cores if core.number not in taken], group.ranks)
        ranks, pool = [], []
        for part in group.parts:
            inside, rest = self._draw(part, taken)
            ranks += inside
            pool += rest
        crossing, rest = self._draw_from(pool, group.ranks - len(ranks))
        return ranks + crossing, rest

    def _draw_from(self, pool: list[Core], ranks: int) -> tuple[list[tuple[list[Core], list[Core]]], list[Core]]:
        """Take the shares of `ranks` ranks from the pool in its order; communication cores are a share's lowest."""
        full = [core for core in pool if core.number in self.full]
        lesser = [core for core in pool if core.number not in self.full]
        shares = []
        for index in range(ranks):
            # Small cores are good enough for communication; they are dealt evenly.
            small = min(self.comm, -(-len(lesser) // (ranks - index)))
            comm, lesser = lesser[:small], lesser[small:]
            large = self.comm - len(comm)
            if len(full) < large + self.compute:
                raise _DoesNotFit
            shares.append((full[large : large + self.compute], comm + full[:large]))
            full = full[large + self.compute :]
        rest = {core.number for core in full + lesser}
        return shares, [core for core in pool if core.number in rest]


class _Spare:
    """Cores that each group can still give to the system while every rank keeps its share."""

    def __init__(self, machine: _Group, full: frozenset[int], compute: int, comm: int) -> None:
        self.full = full
        self.groups_of: dict[int, list[int]] = {}
        self.cores: list[int] = []
        self.full_cores: list[int] = []
        pending = [machine]
        while pending:
            group = pending.pop()
            for core in group.cores:
                self.groups_of.setdefault(core.number, []).append(len(self.cores))
            self.cores.append(len(group.cores) - group.ranks * (compute + comm))
            self.full_cores.append(sum(core.number in full for core in group.cores) - group.ranks * compute)
            pending += group.parts

    def can_go(self, core: Core) -> bool:
        """Return whether every group around the core has one to spare."""
        groups = self.groups_of[core.number]
        return all(
            self.cores[group] > 0 and (core.number not in self.full or self.full_cores[group] > 0) for group in groups
        )

    def take(self, core: Core) -> None:
        """Account for a core that goes to the system."""
        for group in self.groups_of[core.number]:
            self.cores[group] -= 1
            self.full_cores[group] -= core.number in self.full


def _grouped(cores: list[Core], levels: list[tuple[str, ...]]) -> _Group:
    if not levels:
        return _Group(cores)

    def key(core: Core) -> tuple[int, ...]:
        return tuple(getattr(core, name) for name in levels[0])

    keys = sorted({key(core) for core in cores})
    return _Group(cores, [_grouped([core for core in cores if key(core) == wanted], levels[1:]) for wanted in keys])
