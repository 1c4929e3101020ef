"""CPUs of served models, which plans of other jobs leave out."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import Topology, build
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import held
from hypothesis import given
from hypothesis import strategies as st
from support.machines import machine


def topology_of(sockets: int, nodes: int, cores: int, threads: int) -> Topology:
    return build(machine(sockets, cores, threads, nodes_per_socket=nodes).cpus())


def server(jobs: Path, name: str, cpus: dict[str, list[int]], launcher: str = "instances") -> None:
    path = jobs / name
    path.mkdir(parents=True)
    hosts = [{"host": host, "ranks": [{"domain_cpus": [cpu]} for cpu in cpus[host]]} for host in cpus]
    plan = {"launcher": {"name": launcher, "shares_hosts": launcher == "instances"}, "hosts": hosts}
    (path / "plan.json").write_text(json.dumps(plan))
    (path / "status.json").write_text(json.dumps({"state": "running", "pid": os.getpid()}))


def test_cpus_of_servers_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "is_alive", lambda _pid, path, _proc=None: path.name != "ended-serve")
    server(tmp_path, "a-serve", {"node0": [0, 1], "node1": [4]})
    server(tmp_path, "b-serve", {"node1": [7]})
    server(tmp_path, "ended-serve", {"node0": [5]})
    server(tmp_path, "training", {"node0": [6]}, "mpirun")
    assert held.cpus(tmp_path, "node0") == {"a-serve": {0, 1}, "b-serve": frozenset()}
    assert held.cpus(tmp_path, "node1", "a-serve") == {"b-serve": {7}}
    assert held.cpus(tmp_path / "none", "node0") == {}


def test_a_server_whose_model_is_being_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status of the earlier version is that of the job, and the CPUs of both are in use."""
    monkeypatch.setattr(directory, "is_alive", lambda _pid, path, _proc=None: path.name == "a-serve")
    server(tmp_path, "a-serve.20260101T000000Z", {"node0": [0]})
    server(tmp_path, "a-serve", {"node0": [1]})
    status = tmp_path / "a-serve/status.json"
    status.unlink()
    status.symlink_to("../a-serve.20260101T000000Z/status.json")
    earlier = {"job": "a-serve", "state": "running", "pid": os.getpid(), "started": "2026-01-01T00:00:00+00:00"}
    status.write_text(json.dumps(earlier))
    assert held.cpus(tmp_path, "node0") == {"a-serve": {0, 1}}
    assert directory.running(tmp_path / "a-serve")
    assert [Path(job["path"]).name for job in directory.jobs(tmp_path)] == ["a-serve"]
    assert directory.starting(tmp_path / "a-serve") == 0  # it has no job.json


@pytest.mark.slow
@given(st.sets(st.integers(0, 31), max_size=31), st.integers(1, 2))
def test_no_rank_has_a_core_of_which_a_thread_is_in_use(cpus: set[int], sockets: int) -> None:
    topology = topology_of(sockets, 2, 16 // sockets // 2, 2)
    cores = [set(core.cpus) for core in topology.usable_cores]
    if all(core & cpus for core in cores):
        with pytest.raises(ValueError, match="no core is left"):
            topology.without(cpus, "in use")
        return
    left = topology.without(cpus, "in use", "are in use")
    allocation = allocate(left, Request(ranks_per_node=1))
    used = {cpu for rank in allocation.ranks for core in rank.compute_cores for cpu in core.online_cpus}
    assert not used & cpus
    assert {cpu for core in left.usable_cores for cpu in core.cpus} == set().union(
        *(core for core in cores if not core & cpus)
    )


@given(st.integers(1, 16), st.integers(1, 2))
def test_so_many_cores_of_as_few_nodes_as_have_them(count: int, sockets: int) -> None:
    topology = topology_of(sockets, 2, 16 // sockets // 2, 2)
    limited = topology.limited(count)
    by_node: dict[int, int] = {}
    for core in limited.usable_cores:
        by_node[core.node] = by_node.get(core.node, 0) + 1
    most = 16 // sockets // 2
    assert sum(by_node.values()) == count
    assert len(by_node) == -(-count // most)
    assert max(by_node.values()) - min(by_node.values()) <= 1
    assert (count == 16) == (limited == topology)


def test_more_cores_than_there_are() -> None:
    topology = topology_of(1, 1, 4, 1)
    with pytest.raises(ValueError, match=r"^cores=5 is not from 1 to 4\. This node has 4 usable cores"):
        topology.limited(5)


def test_the_cores_of_few_nodes_are_used_where_a_server_has_some_of_one() -> None:
    topology = topology_of(2, 1, 8, 1).without(set(range(8, 14)), "served")
    assert {core.node for core in topology.limited(8).usable_cores} == {0}
    assert {core.node for core in topology.limited(9).usable_cores} == {0, 1}


def test_small_cores_are_used_last() -> None:
    topology = topology_of(1, 1, 4, 1)
    cores = tuple(replace(core, efficient=core.number > 1) for core in topology.cores)
    hybrid = replace(topology, cores=cores)
    for count in range(1, 5):
        used = [core.efficient for core in hybrid.limited(count).usable_cores]
        assert (len(used), used.count(False)) == (count, min(count, 2))


def test_a_server_with_a_damaged_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "is_alive", lambda _pid, _path, _proc=None: True)
    server(tmp_path, "a-serve", {"node0": [0]})
    plan = json.loads((tmp_path / "a-serve/plan.json").read_text())
    del plan["hosts"][0]["ranks"]
    (tmp_path / "a-serve/plan.json").write_text(json.dumps(plan))
    with pytest.raises(ValueError, match="a-serve is damaged"):
        held.cpus(tmp_path, "node0")
