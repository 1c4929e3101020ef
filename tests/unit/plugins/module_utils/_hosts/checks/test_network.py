from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import network
from support.sound_cluster import findings, found_on_node1, results, silent


def test_network() -> None:
    text = "no address in cluster_network 10.0.0.0/24"
    alone = {"network": {"refused": text}, "name_addresses": ["127.0.1.1"]}
    assert found_on_node1(network.network, alone) == [text]
    assert found_on_node1(network.own_name, alone) == [], "without an address on the network there is none to advise"


def test_several_networks() -> None:
    reported = results()
    infos = [result["info"]["host"] for result in reported.values()]
    for number, info in enumerate(infos):
        other = {"interface": "eth1", "address": f"10.1.0.{number + 1}", "network": "10.1.0.0/24", "default": False}
        info["addresses"].append({**other, "named": ""})
    assert findings(network.several_networks, reported) == []
    for info in infos:
        info["network_given"] = False
    text = "all hosts have addresses in 10.1.0.0/24, too, and ranks use 10.0.0.0/24"
    assert findings(network.several_networks, reported) == [("node0", text)]
    for number, info in enumerate(infos):
        info["addresses"][1]["network"] = info["network"]["network"] = f"10.0.{number}.0/24"
    text = "ranks use 10.1.0.0/24, which all hosts share, and their default routes differ"
    assert findings(network.several_networks, reported) == [("node0", text)]
    infos[1]["addresses"].pop()
    assert findings(network.several_networks, reported) == []


def test_own_name() -> None:
    loopback = {"name_addresses": ["127.0.1.1"]}
    assert found_on_node1(network.own_name, loopback) == ["its own name node1 resolves to 127.0.1.1"]
    assert found_on_node1(network.own_name, {**loopback, "network": {"address": "127.0.0.1"}}) == []


def test_own_name_on_the_network_that_hosts_share() -> None:
    reported = results()
    for result in reported.values():
        info = result["info"]["host"]
        info |= {"network_given": False, "network": {"refused": "no default route"}}
    reported["node1"]["info"]["host"]["name_addresses"] = ["127.0.1.1"]
    assert findings(network.own_name, reported) == [("node1", "its own name node1 resolves to 127.0.1.1")]


def test_names() -> None:
    reported = results()
    reported["node2"]["peers"]["names"].update(node0=[], node1=[])
    assert findings(network.names, reported) == [("node2", "it does not resolve node0, node1")]


def test_a_filter_between_two_hosts() -> None:
    reported = results()
    connections = reported["node1"]["peers"]["connections"]
    connections["node2"] = {"error": "no answer"}
    text = "it cannot connect to node2 on a port that listens there: no answer"
    assert findings(network.connection, reported) == [("node1", text)]
    connections["node0"] = {"error": "no answer"}
    text = "it cannot connect to node0, node2 on a port that listens there: no answer"
    assert findings(network.connection, reported) == [("node1", text)]


@pytest.mark.parametrize("task", ["listener", "peers"])
def test_connections_that_could_not_be_tested(task: str) -> None:
    reported = results()
    reported["node1"][task] = {"failed": True, "msg": "cannot listen on 10.0.0.1"}
    text = "connections could not be tested: cannot listen on 10.0.0.1"
    assert findings(network.connection, reported) == [("node1", text)]


def clocks(*offsets: float, uncertainty: float = 0.001) -> dict[str, dict[str, Any]]:
    """A cluster whose other hosts' clocks are this much ahead of the head's."""
    reported = results(len(offsets) + 1)
    for number, offset in enumerate(offsets, 1):
        one = {"error": "", "offset": offset, "uncertainty": uncertainty}
        reported["node0"]["peers"]["connections"][f"node{number}"] = one
    return reported


def test_clock() -> None:
    assert findings(network.clock, clocks(0.9, -0.05)) == []
    text = "its clock is 3599.8 s ahead of the others' (± 0.001 s)"
    assert findings(network.clock, clocks(3600.0, 0.2)) == [("node1", text)]
    # The head's own is the one that is off.
    text = "its clock is 3600.0 s behind the others'"
    assert findings(network.clock, clocks(3600.0, 3600.2)) == [("node0", text)]
    # Of two nobody can tell which one is right.
    text = "its clock is 5.0 s behind the others' (± 0.001 s)"
    assert findings(network.clock, clocks(-5.0)) == [("node1", text)]
    # What may be the time that the request took is not blamed on the clock.
    assert findings(network.clock, clocks(2.5, uncertainty=2.0)) == []


def test_clocks_are_read_by_the_next_host_when_the_head_does_not_answer() -> None:
    reported = {**clocks(0.0, 0.0), "node0": silent(facts={"unreachable": True})}
    reported["node1"]["peers"]["connections"]["node2"]["offset"] = 7.0
    assert [host for host, _text in findings(network.clock, reported)] == ["node2"]
