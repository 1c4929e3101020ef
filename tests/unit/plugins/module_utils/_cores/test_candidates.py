from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores import candidates
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology, build
from hypothesis import given
from hypothesis import strategies as st
from support.machines import machine

DEFAULT = {
    "ranks_per_node": "auto",
    "comm_cores": "auto",
    "reserved_cores": "auto",
    "threads_per_core": 1,
    "backend": "gloo",
}
BACKENDS = st.sampled_from([["gloo"], ["mpi", "gloo"], ["ccl"]])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    sockets, cores, threads = draw(st.integers(1, 2)), draw(st.integers(1, 14)), draw(st.integers(1, 2))
    made = machine(sockets, cores, threads)
    allowed = draw(st.one_of(st.none(), st.sets(st.sampled_from(sorted(made.online)), min_size=1)))
    return build(made.cpus(), frozenset(allowed) if allowed else None)


def accepted(topology: Topology, settings: dict[str, Any]) -> str | None:
    try:
        return candidates.digest(allocate(topology, Request(**settings)))
    except ValueError:
        return None


@pytest.mark.slow
@given(hosts=st.lists(topologies(), min_size=1, max_size=3), backends=BACKENDS)
def test_every_candidate_is_valid_on_every_host_and_none_is_there_twice(
    hosts: list[Topology], backends: list[str]
) -> None:
    default = {**DEFAULT, "backend": backends[0]}
    told = {f"node{place}": candidates.of_host(host, backends, default) for place, host in enumerate(hosts)}
    found = candidates.common(told)
    if any(accepted(host, default) is None for host in hosts):
        assert found == []
        return
    assert found[0] == default
    made = [tuple(accepted(host, settings) for host in hosts) for settings in found]
    assert all(None not in each for each in made)
    assert len(set(made)) == len(made)
    assert {settings["backend"] for settings in found} <= set(backends)


def test_two_cores() -> None:
    found = candidates.common(
        {"here": candidates.of_host(build(machine(1, 2, 1).cpus()), ["mpi", "gloo"], {**DEFAULT, "backend": "mpi"})}
    )
    tried = {(each["ranks_per_node"], each["comm_cores"], each["backend"]) for each in found[1:]}
    assert tried == {(2, 0, "mpi"), (1, 0, "gloo"), (2, 0, "gloo"), (1, 1, "mpi"), (1, 1, "gloo")}


def test_oneccl_is_tried_without_a_communication_core() -> None:
    default = {**DEFAULT, "backend": "ccl", "ranks_per_node": 1}

    def tried(cores: int) -> list[tuple[int, int]]:
        found = candidates.common({"here": candidates.of_host(build(machine(1, cores, 1).cpus()), ["ccl"], default)})
        return [(each["ranks_per_node"], each["comm_cores"]) for each in found[1:]]

    assert tried(2) == [(1, 0), (2, 0)]
    assert {comm for _ranks, comm in tried(8)} == {0, 1, 2}


def test_what_may_not_vary_stays() -> None:
    topology = build(machine(2, 16, 2).cpus())
    found = candidates.of_host(topology, ["mpi", "gloo"], {**DEFAULT, "backend": "mpi"}, ["ranks_per_node"])
    kept = {name: value for name, value in DEFAULT.items() if name not in ("ranks_per_node", "backend")}
    assert {each["settings"]["ranks_per_node"] for each in found} >= {"auto", 1, 4}
    for each in found:
        assert each["settings"] == {**each["settings"], **kept, "backend": "mpi"}


@pytest.mark.parametrize("told", [{}, {"a": []}, {"a": [], "b": [{"settings": DEFAULT, "allocation": "x"}]}])
def test_no_candidate(told: dict[str, Any]) -> None:
    assert candidates.common(told) == []
