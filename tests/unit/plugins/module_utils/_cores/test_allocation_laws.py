"""The laws of a plan, each as a property of generated machines and requests.

Machines have 1 to 8 sockets, 1 to 128 cores, 1 to 4 threads a core, any numbering, nodes that differ in size, node
numbers with gaps, offline CPUs, cpusets, isolated CPUs and small cores.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import (
    PER_PLACE,
    Allocation,
    Request,
    allocate,
)
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Core, Topology, build, parse_lscpu
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.at_length import AT_LENGTH
from support.machines import NUMBERINGS, Machine, machine

pytestmark = pytest.mark.slow


EXAMPLES = 100 if AT_LENGTH else 40
law = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    sockets = draw(st.integers(1, 8))
    nodes_per_socket = draw(st.integers(1, 4))
    nodes = sockets * nodes_per_socket
    largest = max(128 // nodes, 1)
    even = draw(st.booleans())
    cores = (
        [draw(st.integers(1, largest))] * nodes if even else [draw(st.integers(1, largest)) for _node in range(nodes)]
    )
    threads = draw(st.integers(1, 4))
    ids = sorted(draw(st.sets(st.integers(0, 63), min_size=nodes, max_size=nodes)))
    if draw(st.integers(0, 9)) == 0:
        ids = [0] * nodes  # a virtual machine: many sockets, one NUMA node
    made = machine(
        sockets,
        cores,
        threads,
        nodes_per_socket=nodes_per_socket,
        numbering=draw(st.sampled_from(NUMBERINGS)),
        node_ids=ids,
        small_cores=draw(st.integers(0, 8)) if threads > 1 else 0,
        seed=draw(st.integers(0, 99)),
    )
    return made.without(_some_cpus(draw, len(made.places)))


def _some_cpus(draw: st.DrawFn, cpus: int) -> set[int]:
    """None in most machines; else a few, or a block."""
    kind = draw(st.sampled_from(("none", "none", "few", "block")))
    if kind == "few":
        return draw(st.sets(st.integers(0, cpus - 1), max_size=min(cpus - 1, 6)))
    first, last = sorted((draw(st.integers(0, cpus)), draw(st.integers(0, cpus)))) if kind == "block" else (0, 0)
    return set(range(first, last)) if last - first < cpus else set()


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    made = draw(machines())
    cpus = len(made.places)
    allowed = made.online - _some_cpus(draw, cpus)
    assume(allowed)
    isolated = frozenset(_some_cpus(draw, cpus))
    return build(made.cpus(), allowed, isolated=isolated)


@st.composite
def requests(draw: st.DrawFn, topology: Topology) -> Request:
    nodes = len({core.node for core in topology.usable_cores})
    backend = draw(st.sampled_from(("ccl", "gloo", "mpi")))
    return Request(
        draw(
            st.one_of(
                st.sampled_from(PER_PLACE), st.integers(1, 12), st.just(nodes), st.integers(1, 8).map("<={}".format)
            )
        ),
        backend,
        draw(st.one_of(st.just("auto"), st.integers(0, 4))),
        draw(st.one_of(st.just("auto"), st.integers(0, 8))),
        draw(st.one_of(st.just("all"), st.integers(1, topology.threads_per_core))),
    )


@st.composite
def asked(draw: st.DrawFn) -> tuple[Topology, Request]:
    topology = draw(topologies())
    return topology, draw(requests(topology))


@st.composite
def plans(draw: st.DrawFn) -> Allocation:
    topology, request = draw(asked())
    try:
        return allocate(topology, request)
    except ValueError:
        assume(False)
        raise


def _cores_of(plan: Allocation) -> list[list[Core]]:
    parts = [list(part) for rank in plan.ranks for part in (rank.compute_cores, rank.comm_cores)]
    return [*parts, list(plan.reserved_cores), list(plan.remainder_cores)]


def _full(plan: Allocation) -> set[int]:
    """The cores that ranks may compute on."""
    usable = plan.topology.usable_cores
    enough = [core for core in usable if len(core.cpus) >= plan.threads_per_core]
    return {core.number for core in enough if not core.efficient} or {core.number for core in enough}


@law
@given(plans())
def test_every_usable_core_is_in_exactly_one_part(plan: Allocation) -> None:
    given_out = Counter(core.number for part in _cores_of(plan) for core in part)
    assert given_out == Counter(core.number for core in plan.topology.usable_cores)


@law
@given(plans())
def test_a_hyperthread_sibling_goes_with_its_core(plan: Allocation) -> None:
    core_of = {cpu: core.number for core in plan.topology.cores for cpu in core.cpus}
    users = [
        ({core_of[cpu] for cpu in rank.compute_cpus}, {core_of[cpu] for cpu in rank.comm_cpus}) for rank in plan.ranks
    ]
    parts = [part for pair in users for part in pair] + [{core_of[cpu] for cpu in plan.as_dict()["system_cpus"]}]
    assert sum(len(part) for part in parts) == len(set().union(*parts))


@law
@given(plans())
def test_no_rank_has_more_threads_than_its_compute_cores_have_room_for(plan: Allocation) -> None:
    for rank in plan.ranks:
        assert int(plan.env["OMP_NUM_THREADS"]) == len(rank.compute_cpus) == len(set(rank.compute_cpus))
        assert len(rank.compute_cpus) == len(rank.compute_cores) * plan.threads_per_core
        assert set(rank.compute_cpus) <= {cpu for core in rank.compute_cores for cpu in core.cpus}


@law
@given(plans())
def test_every_rank_of_a_node_has_as_many_compute_cores(plan: Allocation) -> None:
    assert len({len(rank.compute_cores) for rank in plan.ranks}) == 1
    assert len(plan.ranks[0].compute_cores) >= 1


@law
@given(asked())
def test_what_was_asked_is_given_exactly_or_refused(case: tuple[Topology, Request]) -> None:
    topology, request = case
    try:
        plan = allocate(topology, request)
    except ValueError:
        return
    if isinstance(request.ranks_per_node, int):
        assert len(plan.ranks) == request.ranks_per_node
    elif request.ranks_per_node == "socket":
        assert len(plan.ranks) <= len({core.socket for core in topology.usable_cores})
    elif request.ranks_per_node != "auto":
        assert len(plan.ranks) <= int(request.ranks_per_node[2:])
    if request.comm_cores != "auto":
        assert all(len(rank.comm_cores) == request.comm_cores for rank in plan.ranks)
    if request.reserved_cores != "auto":
        assert len(plan.reserved_cores) == request.reserved_cores
    if request.threads_per_core != "all":
        assert plan.threads_per_core == request.threads_per_core


@law
@given(plans())
def test_a_rank_lies_within_one_numa_node_if_there_are_as_many_ranks(plan: Allocation) -> None:
    assume(len(plan.ranks) >= len({core.node for core in plan.topology.usable_cores}))
    assert all(len(rank.numa_nodes) == 1 for rank in plan.ranks)


@law
@given(plans())
def test_a_rank_lies_within_one_socket_if_there_are_as_many_ranks(plan: Allocation) -> None:
    assume(len(plan.ranks) >= len({core.socket for core in plan.topology.usable_cores}))
    assert all(len(rank.sockets) == 1 for rank in plan.ranks)


@law
@given(plans())
def test_no_rank_crosses_a_numa_node_that_could_have_stayed_within_one(plan: Allocation) -> None:
    compute = len(plan.ranks[0].compute_cores)
    assume(len(_full(plan)) == len(plan.topology.usable_cores))  # else a larger share comes first
    cells = Counter((core.socket, core.node) for core in plan.topology.usable_cores)
    room = sum(size // (compute + plan.comm_cores) for size in cells.values())
    assert sum(len(rank.numa_nodes) == 1 for rank in plan.ranks) >= min(len(plan.ranks), room)


@law
@given(plans())
def test_no_larger_share_was_possible(plan: Allocation) -> None:
    ranks, usable = len(plan.ranks), plan.topology.usable_cores
    compute = len(plan.ranks[0].compute_cores) + 1
    share = compute + plan.comm_cores
    full = _full(plan)
    levels = [
        level for level in ("node", "socket") if ranks >= len({getattr(core, level) for core in usable})
    ]  # the boundaries that no rank may cross
    bins: dict[Any, list[Core]] = {}
    for core in usable:
        bins.setdefault(tuple(getattr(core, level) for level in levels), []).append(core)
    room = sum(min(len(part) // share, sum(core.number in full for core in part) // compute) for part in bins.values())
    assert ranks * share + len(plan.reserved_cores) > len(usable) or room < ranks


@law
@given(plans())
def test_no_offline_or_disallowed_cpu_is_used_and_every_cpu_is_accounted_for(plan: Allocation) -> None:
    data = plan.as_dict()
    used = Counter(data["system_cpus"])
    for rank in data["ranks"]:
        used.update(rank["compute_cpus"] + rank["comm_cpus"])
    assert set(used) <= {cpu for core in plan.topology.cores for cpu in core.cpus}
    unused = Counter(cpu for entry in data["unused_cpus"] for cpu in entry["cpus"])
    assert used + unused == Counter(cpu.number for cpu in plan.topology.cpus)


@law
@given(plans())
def test_remainder_cores_go_to_the_system_and_are_named(plan: Allocation) -> None:
    data = plan.as_dict()
    assert set(data["remainder_cpus"]) <= set(data["system_cpus"])
    named = [warning for warning in plan.warnings if "left over" in warning]
    assert len(named) == bool(data["remainder_cpus"])
    if named:
        assert named[0].startswith(f"{len(plan.remainder_cores)} of {len(plan.topology.usable_cores)} usable cores")


@law
@given(plans())
def test_system_cores_are_the_lowest_of_their_numa_node_and_socket(plan: Allocation) -> None:
    full = _full(plan)
    of_ranks = [core for rank in plan.ranks for core in rank.compute_cores + rank.comm_cores]
    for mine in plan.system_cores:
        for other in of_ranks:
            if (mine.node, mine.socket) == (other.node, other.socket) and (mine.number in full) == (
                other.number in full
            ):
                assert mine.cpus[0] < other.cpus[0]


@law
@given(plans())
def test_communication_cores_are_the_lowest_of_each_ranks_own(plan: Allocation) -> None:
    full = _full(plan)
    for rank in plan.ranks:
        for comm in rank.comm_cores:
            for compute in rank.compute_cores:
                same_cell = (comm.node, comm.socket) == (compute.node, compute.socket)
                assert comm.number not in full or not same_cell or comm.cpus[0] < compute.cpus[0]


@law
@given(plans())
def test_small_cores_go_to_the_system_then_to_communication_and_never_compute(plan: Allocation) -> None:
    full = _full(plan)
    assert all(core.number in full for rank in plan.ranks for core in rank.compute_cores)
    assume(any(not core.efficient for core in plan.topology.usable_cores))
    assume(any(core.number in full and not core.efficient for core in plan.topology.usable_cores))
    assert not any(core.efficient for rank in plan.ranks for core in rank.compute_cores)
    if len({(core.socket, core.node) for core in plan.topology.usable_cores}) == 1:
        large_for_system = any(core.number in full for core in plan.system_cores)
        small_for_comm = any(core.number not in full for rank in plan.ranks for core in rank.comm_cores)
        assert not (large_for_system and small_for_comm)


@law
@given(plans())
def test_the_environment_says_what_the_plan_says(plan: Allocation) -> None:
    masks = plan.env["I_MPI_PIN_DOMAIN"].strip("[]").split(",")
    assert len(masks) == len(plan.ranks)
    taken: set[int] = set()
    for mask, rank in zip(masks, plan.ranks):
        domain = {cpu for cpu in range(int(mask, 16).bit_length()) if int(mask, 16) >> cpu & 1}
        assert domain == set(rank.domain_cpus)
        assert not domain & taken
        taken |= domain
        if plan.backend == "gloo":
            assert domain == set(rank.compute_cpus) | set(rank.comm_cpus)
        else:
            assert domain == set(rank.compute_cpus)
        affinity = rank.env.get("KMP_AFFINITY", plan.env.get("KMP_AFFINITY", ""))
        listed = re.search(r"proclist=\[([0-9,]+)\],explicit$", affinity)
        bound = [int(cpu) for cpu in listed.group(1).split(",")] if listed else sorted(domain)
        assert bound == list(rank.compute_cpus)
    if plan.backend == "mpi":
        for rank in plan.ranks:
            assert rank.env.get("AMX_CLUSTER_MPI_CPUS", "") == ",".join(map(str, rank.comm_cpus))
            assert not set(rank.comm_cpus) & set(rank.domain_cpus)
    if plan.backend == "ccl" and not plan.comm_cores:
        settings = {name: value for name, value in plan.env.items() if name.startswith("CCL_")}
        assert settings == {"CCL_WORKER_COUNT": "1", "CCL_WORKER_OFFLOAD": "0"}
    elif plan.backend == "ccl":
        workers = [int(cpu) for cpu in plan.env["CCL_WORKER_AFFINITY"].split(",")]
        assert workers == [cpu for rank in plan.ranks for cpu in rank.comm_cpus]
        assert len(workers) == len(plan.ranks) * int(plan.env["CCL_WORKER_COUNT"])
        assert not set(workers) & taken
    else:
        assert not any(name.startswith("CCL_") for name in plan.env)


@law
@given(
    topologies(),
    st.builds(
        Request,
        st.one_of(st.integers(1, 40), st.integers(1, 200)),
        st.sampled_from(("ccl", "gloo", "mpi")),
        st.integers(1, 20),
        st.one_of(st.just("auto"), st.integers(0, 150)),
    ),
)
def test_the_nearest_request_in_a_refusal_fits(topology: Topology, request: Request) -> None:
    try:
        allocate(topology, request)
    except ValueError as error:
        text = str(error)
    else:
        return
    assert str(len(topology.usable_cores)) in text
    nearest = re.search(r"The nearest request that fits: (.*)$", text)
    if nearest is None:
        assert text.endswith("No request fits.")
        with pytest.raises(ValueError, match="No request fits"):
            allocate(topology, replace(request, ranks_per_node=1, comm_cores=0, reserved_cores=0))
        return
    for change in nearest.group(1).split(", or "):
        numbers: dict[str, Any] = {name: int(value) for name, value in (pair.split("=") for pair in change.split(", "))}
        allocate(topology, replace(request, **numbers))


@law
@given(machines(), st.sampled_from(("2.32", "2.37", "2.39")))
def test_every_lscpu_tells_the_same_machine(made: Machine, version: str) -> None:
    assert parse_lscpu(made.lscpu(version)) == made.cpus()


@law
@given(plans())
def test_the_map_shows_every_core_once(plan: Allocation) -> None:
    rows = [line for line in CoreMap.of(plan).text().splitlines() if line.startswith("socket")]
    drawn = Counter("".join(re.sub(r"^socket \d+ +node \d+ +", "", row) for row in rows).replace(" ", ""))
    assert drawn.total() == len(plan.topology.cores)
    assert drawn["s"] == len(plan.reserved_cores)
    assert drawn["r"] == len(plan.remainder_cores)
    assert drawn["c"] == plan.comm_cores * len(plan.ranks)
    assert CoreMap.of(plan).svg().count("<g><title>") == len(plan.topology.cores)
