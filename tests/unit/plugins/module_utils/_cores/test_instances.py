from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores import instances
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology, build
from hypothesis import given
from hypothesis import strategies as st
from support.machines import machine


def topology(sockets: int, cores: int) -> Topology:
    """A machine with so many sockets of so many cores, each a NUMA node."""
    return build(machine(sockets, cores, 1).cpus())


@given(
    st.integers(1, 2),
    st.integers(1, 14),
    st.lists(st.integers(1, 40), max_size=3),
    st.lists(st.integers(1, 40), max_size=3),
)
def test_what_a_host_accepts_is_what_its_allocation_makes(
    sockets: int, cores: int, numbers: list[int], threads: list[int]
) -> None:
    there = topology(sockets, cores)
    found = instances.of_host(there, "gloo", [*numbers, "auto", "cores"], threads)
    assert len(found) == len(numbers) + 2 + len(threads)
    for one in found:
        if one["error"]:
            assert one["instances"] is None
            continue
        made = allocate(there, Request(ranks_per_node=one["ranks_per_node"], reserved_cores=one["reserved_cores"]))
        assert (len(made.ranks), made.threads_per_rank) == (one["instances"], one["threads"])
        name, _equals, value = one["name"].partition("=")
        if name == "threads_per_instance":
            assert one["threads"] == int(value)
        elif value == "cores":
            assert one["threads"] == 1
    accepted = {one["name"]: one for one in found}
    for number in numbers:
        if number > len(there.usable_cores):
            assert f"{len(there.usable_cores)} usable" in accepted[f"instances_per_node={number}"]["error"]


def test_threads_of_an_instance_leave_no_instance_across_numa_nodes() -> None:
    (one,) = instances.of_host(topology(2, 10), "gloo", threads=[4])
    assert (one["instances"], one["threads"], one["reserved_cores"]) == (4, 4, 4)
    (one,) = instances.of_host(topology(2, 10), "gloo", threads=[16])
    assert (one["instances"], one["threads"]) == (1, 16)
    (one,) = instances.of_host(topology(1, 2), "gloo", threads=[3])
    assert one["error"] == "threads_per_instance=3 is more than the 2 usable cores of this host"


def test_requests_of_several_hosts() -> None:
    two = instances.of_host(topology(1, 2), "gloo", [1, "auto", "cores", 4])
    four = instances.of_host(topology(1, 4), "gloo", [1, "auto", "cores", 4])
    alike = instances.common({"node0": two, "node1": two})
    # auto comes to the same cores as 1 here.
    assert [one["name"] for one in alike] == [
        "instances_per_node=1",
        "instances_per_node=cores",
        "instances_per_node=4",
    ]
    assert [one["total"] for one in alike] == [2, 4, None]
    assert alike[2]["error"].startswith("node0: ranks_per_node=4, comm_cores=0 and reserved_cores=0 ")
    unlike = {one["name"]: one for one in instances.common({"node0": two, "node1": four})}
    assert unlike["instances_per_node=cores"]["error"] == (
        "instances_per_node=cores comes to other numbers of instances, 2 on node0, 4 on node1: give a number that all "
        "can have"
    )
    assert unlike["instances_per_node=1"]["error"] == ""
    assert unlike["instances_per_node=1"]["total"] == 2
    assert unlike["instances_per_node=4"]["error"].startswith("node0: ")
    with pytest.raises(KeyError):
        unlike["instances_per_node=auto"]
