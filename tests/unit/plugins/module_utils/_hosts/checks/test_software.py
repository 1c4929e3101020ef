from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import software
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster
from support.sound_cluster import FULL, findings, found_on_node1, results


def test_nothing_is_installed() -> None:
    text = "no virtual environment is installed at /opt/amx-cluster/env"
    assert found_on_node1(software.stack, {"stack": {}}) == [text]


def test_another_virtual_environment() -> None:
    reported = results()
    other = {"env": "/opt/amx-cluster/envs/native-0", "versions": {"torch": "2.12"}}
    reported["node2"]["info"]["host"]["stack"].update(other)
    text = "it uses /opt/amx-cluster/envs/native-0, but node0, node1 /opt/amx-cluster/envs/native-1"
    assert findings(software.stack, reported) == [("node2", text)]
    assert findings(software.packages, reported) == [], "its packages are compared with none"


def test_packages() -> None:
    reported = results()
    stacks = [answer["info"]["host"]["stack"] for answer in reported.values()]
    stacks[1]["versions"]["tokenizers"] = "0.0.1"
    stacks[2]["versions"]["extra"] = "1"
    assert findings(software.packages, reported) == [
        ("node2", "extra is 1, but should be absent, as on the other hosts"),
        ("node1", "tokenizers is 0.0.1, but should be 0.23.3"),
    ]


def test_a_pinned_version_is_right_whatever_most_hosts_have() -> None:
    reported = results(2)
    for answer in reported.values():
        answer["info"]["host"]["stack"]["versions"]["torch"] = "2.13.0"
    text = "torch is 2.13.0, but should be 2.13.0+cpu"
    assert findings(software.packages, reported) == [("node0", text), ("node1", text)]
    del reported["node1"]["info"]["host"]["stack"]["versions"]["torch"]
    text = "torch is not installed, but should be 2.13.0+cpu"
    assert findings(software.packages, reported)[1] == ("node1", text)


def test_provider() -> None:
    reported = results()
    hosts = [answer["info"]["host"] for answer in reported.values()]
    hosts[0]["stack"].update(providers=[], provider_error="fi_getinfo: -61 (No data available)")
    hosts[1]["stack"]["providers"] = ["tcp of eth7"]
    hosts[2].update(network={"refused": "none"})  # the check network reports it
    assert findings(software.provider, reported) == [
        ("node0", "libfabric has no provider tcp: fi_getinfo: -61 (No data available)"),
        (
            "node1",
            "libfabric has no provider tcp of eth0, which carries the cluster network, but tcp of eth7",
        ),
    ]


def test_loopback_needs_no_provider() -> None:
    """A cluster of one machine."""
    reported = results(1)
    host = reported["node0"]["info"]["host"]
    host["network"] = {"interface": "lo"}
    host["stack"]["providers"] = ["tcp of eth0"]
    assert findings(software.provider, reported) == []


def test_tcmalloc() -> None:
    assert found_on_node1(software.tcmalloc, {"tcmalloc": ""}) == ["the loader's cache has no libtcmalloc"]
    advice = {
        "ubuntu 24.04": "Install the package libtcmalloc-minimal4t64 and run ldconfig",
        "rhel 9.6": "Install the package gperftools-libs of EPEL and run ldconfig",
        "fedora 43": "",
    }
    for system, text in advice.items():
        reported = results()
        reported["node1"]["info"]["host"].update(tcmalloc="", os=system)
        (one,) = software.tcmalloc.find(Cluster(reported, FULL))
        assert one.advice == text
