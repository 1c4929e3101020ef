from __future__ import annotations

import platform
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import facts
from support.sound_cluster import CAPTURED


def test_addresses_of_this_machine() -> None:
    found = {row["address"]: row for row in facts.addresses()}
    loopback = {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8", "default": False, "named": ""}
    assert found["127.0.0.1"] == loopback
    names = {name for _index, name in socket.if_nameindex()}
    assert {row["interface"] for row in found.values()} <= names


def test_the_default_route(tmp_path: Path) -> None:
    routes = tmp_path / "route"
    routes.write_text(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth9\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "lo\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth9\t00000000\t010011AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    )
    assert {row["interface"] for row in facts.addresses(routes) if row["default"]} == {"lo"}


def test_read_this_machine(tmp_path: Path) -> None:
    host = facts.read(tmp_path / "cluster" / "prefix", amx_root=str(CAPTURED / "sapphire_rapids"))
    assert host["machine"] == platform.machine()
    assert (host["isa"], host["cpu_model"]) == ("amx", "Intel(R) Xeon(R) Platinum 8480+")
    assert host["amx"]["reason"] == "not_asked"
    assert (host["prefix"], host["prefix_ancestor"]) == (str(tmp_path / "cluster/prefix"), str(tmp_path))
    assert host["prefix_writable"]
    assert host["prefix_free_bytes"] > 0
    assert 0 < host["memory_available_bytes"] <= host["memory_bytes"]
    assert host["python"] == platform.python_version()
    assert host["name"] == socket.gethostname()


def test_the_cluster_network_of_this_machine(tmp_path: Path) -> None:
    loopback = {"interface": "lo", "address": "127.0.0.1", "network": "127.0.0.0/8"}
    assert facts.read(tmp_path, network="127.0.0.0/8")["network"] == loopback
    refused = "none of the host's addresses lies in cluster_network 203.0.113.0/24; its addresses: "
    assert facts.read(tmp_path, network="203.0.113.0/24")["network"]["refused"].startswith(refused)


def test_a_file_is_no_place_for_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not facts.read(tmp_path / "file")["prefix_writable"]


def test_the_system(tmp_path: Path) -> None:
    assert facts._os_name(tmp_path / "os-release") == ""
    (tmp_path / "os-release").write_text('NAME="Red Hat Enterprise Linux"\nID="rhel"\nVERSION_ID="9.4"\n')
    assert facts._os_name(tmp_path / "os-release") == "rhel 9.4"


def test_addresses_that_the_inventory_names() -> None:
    assert {row["named"] for row in facts.addresses(chosen="127.0.0.1") if row["address"] == "127.0.0.1"} == {
        "cluster_address"
    }
    with pytest.raises(ValueError, match=r"^cluster_address is 192\.0\.2\.9, and this host has .*127\.0\.0\.1"):
        facts.addresses(chosen="192.0.2.9")


def address(interface: str, address: str, network: str, default: bool = False) -> dict[str, object]:
    return {"interface": interface, "address": address, "network": network, "default": default}


LO = address("lo", "127.0.0.1", "127.0.0.0/8")
ETH0 = address("eth0", "10.0.0.5", "10.0.0.0/24", default=True)
ETH1 = address("eth1", "192.168.7.5", "192.168.7.0/24")
NO_IPV4 = (
    "the host has no IPv4 address besides the loopback, and ranks communicate over IPv4 only: give the hosts IPv4 "
    "addresses in one network, private ones will do. For a cluster of one host, set cluster_network to 127.0.0.0/8"
)
SECOND = address("eth1", "192.168.7.6", "192.168.7.0/24")
FLOATING = address("eth1", "192.168.7.9", "192.168.7.9/32")
OTHER = address("eth2", "192.168.7.7", "192.168.7.0/24")
VIP = address("eth0", "10.0.0.9", "10.0.0.9/32", default=True)


@pytest.mark.parametrize(
    ("network", "chosen"),
    [
        ("", ETH0),
        ("192.168.7.0/24", ETH1),
        ("192.168.7.99/24", ETH1),
        ("192.168.0.0/16", ETH1),
        ("127.0.0.0/8", LO),
        ("10.0.0.5", ETH0),
    ],
)
def test_interface(network: str, chosen: dict[str, object]) -> None:
    expected = {key: chosen[key] for key in ("interface", "address", "network")}
    assert facts.cluster_interface([LO, ETH0, ETH1], network) == expected


@pytest.mark.parametrize(
    ("addresses", "network", "chosen"),
    [
        ([ETH1, SECOND], "192.168.7.0/24", ETH1),
        ([FLOATING, ETH1, SECOND], "192.168.7.0/24", ETH1),
        ([FLOATING], "192.168.7.0/24", FLOATING),
        ([ETH1, {**SECOND, "named": "ansible_host"}], "192.168.7.0/24", SECOND),
        ([{**ETH1, "named": "ansible_host"}, {**OTHER, "named": "cluster_address"}], "192.168.7.0/24", OTHER),
        ([ETH1, {**OTHER, "named": "ansible_host"}], "192.168.7.0/24", OTHER),
        ([VIP, ETH0], "", ETH0),
        ([{**ETH1, "named": "cluster_address"}, ETH0], "", ETH1),
        ([ETH0, {**ETH1, "named": "ansible_host"}], "", ETH0),
    ],
)
def test_one_of_several_addresses(addresses: list[dict[str, Any]], network: str, chosen: dict[str, object]) -> None:
    assert facts.cluster_interface(addresses, network)["address"] == chosen["address"]


@pytest.mark.parametrize(
    ("addresses", "network", "error"),
    [
        (
            [LO, ETH1],
            "",
            "cluster_network is not set and the host has no default route of IPv4; its addresses: lo 127.0.0.1 in "
            "127.0.0.0/8, eth1 192.168.7.5 in 192.168.7.0/24",
        ),
        ([LO], "", NO_IPV4),
        ([], "", NO_IPV4),
        (
            [LO],
            "2001:db8::/64",
            "cluster_network 2001:db8::/64 is a network of IPv6, and ranks communicate over IPv4 only: give the hosts "
            "IPv4 addresses in one network, private ones will do, and set cluster_network to it; its addresses: lo "
            "127.0.0.1 in 127.0.0.0/8",
        ),
        ([ETH0], "10.0.0/24", "cluster_network: '10.0.0/24' is not a network such as 10.0.0.0/24"),
        (
            [ETH0],
            "10.9.0.0/16",
            "none of the host's addresses lies in cluster_network 10.9.0.0/16; its addresses: eth0 10.0.0.5 in "
            "10.0.0.0/24",
        ),
        (
            [ETH1, OTHER],
            "192.168.7.0/24",
            "2 of the host's addresses lie in cluster_network 192.168.7.0/24, on several interfaces: set "
            "cluster_address of this host to the one over which ranks communicate; "
            "its addresses: eth1 192.168.7.5 in 192.168.7.0/24, eth2 192.168.7.7 in 192.168.7.0/24",
        ),
        (
            [{**ETH0, "named": "cluster_address"}, ETH1],
            "192.168.7.0/24",
            "cluster_address 10.0.0.5 does not lie in cluster_network 192.168.7.0/24; "
            "its addresses: eth0 10.0.0.5 in 10.0.0.0/24, eth1 192.168.7.5 in 192.168.7.0/24",
        ),
    ],
)
def test_no_interface(addresses: list[dict[str, object]], network: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        facts.cluster_interface(addresses, network)
