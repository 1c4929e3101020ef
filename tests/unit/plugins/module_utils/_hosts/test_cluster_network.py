"""cluster_network: the one that the inventory names, or that hosts share; addresses of which kinds are taken."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network


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
    assert cluster_network.interface([LO, ETH0, ETH1], network) == expected


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
    assert cluster_network.interface(addresses, network)["address"] == chosen["address"]


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
        cluster_network.interface(addresses, network)


def info(*addresses: dict[str, object], network: str = "") -> dict[str, Any]:
    """Return what host_info returns of a host's addresses. network: cluster_network."""
    rows = [{"named": "", **row} for row in addresses]
    return {"addresses": rows, "network": cluster_network.of_host(rows, network), "network_given": bool(network)}


def found(*infos: dict[str, Any]) -> list[str]:
    networks = cluster_network.of_hosts({f"node{number}": info for number, info in enumerate(infos)})
    return [network.get("address") or network["refused"] for network in networks.values()]


def pair(interface: str, network: str, default: bool = False, named: str = "") -> list[dict[str, object]]:
    """Return the addresses of two hosts in a network, whose last number is 0."""
    begin, _zero, _bits = network.rpartition("0/")
    return [{**address(interface, f"{begin}{n}", network, default), "named": named} for n in (1, 2)]


A, B, C = pair("eth0", "10.0.0.0/24"), pair("eth1", "10.1.0.0/24"), pair("eth2", "10.2.0.0/24")
ROUTE = pair("eth3", "10.3.0.0/24", default=True)
USB = pair("usb0", "169.254.0.0/16")  # of management controllers
DOCKER = address("docker0", "172.17.0.1", "172.17.0.0/16")
ALONE = [address("eth9", f"10.9.{n}.1", f"10.9.{n}.0/24", default=True) for n in (1, 2)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([LO, A[0], ROUTE[0]], [LO, A[1], ROUTE[1]], ["10.3.0.1", "10.3.0.2"]),
        ([LO, A[0], ALONE[0]], [LO, A[1], ALONE[1]], ["10.0.0.1", "10.0.0.2"]),  # the default routes lead elsewhere
        ([A[0], DOCKER], [DOCKER, A[1]], ["10.0.0.1", "10.0.0.2"]),  # without default routes
        ([A[0], ALONE[0]], [A[1], ROUTE[1]], ["10.0.0.1", "10.0.0.2"]),
        ([DOCKER, ALONE[0]], [DOCKER, ALONE[1]], ["10.9.1.1", "10.9.2.1"]),  # none is shared: routers connect them
        (
            [A[0], B[0], ALONE[0]],
            [A[1], B[1], ALONE[1]],
            ["all hosts have addresses in 10.0.0.0/24 and in 10.1.0.0/24, and no variable says which network ranks use"]
            * 2,
        ),
        (
            [A[0], {**B[0], "named": "ansible_host"}, ALONE[0]],
            [A[1], {**B[1], "named": "ansible_host"}, ALONE[1]],
            ["10.1.0.1", "10.1.0.2"],
        ),
        (
            [{**A[0], "named": "cluster_address"}, {**ROUTE[0], "named": "ansible_host"}],
            [{**A[1], "named": "cluster_address"}, {**ROUTE[1], "named": "ansible_host"}],
            ["10.0.0.1", "10.0.0.2"],
        ),
        ([A[0], B[0], ALONE[0]], [A[0], B[1], ALONE[1]], ["10.1.0.1", "10.1.0.2"]),  # the same address twice
        ([USB[0], ALONE[0]], [USB[1], ALONE[1]], ["10.9.1.1", "10.9.2.1"]),
    ],
)
def test_network_that_hosts_share(
    first: list[dict[str, object]], second: list[dict[str, object]], expected: list[str]
) -> None:
    assert found(info(*first), info(*second)) == expected


def test_a_network_that_is_named_or_of_one_host_is_left() -> None:
    assert found(info(A[0], ROUTE[0], network="10.0.0.0/24"), info(A[1], ROUTE[1], network="10.0.0.0/24")) == [
        "10.0.0.1",
        "10.0.0.2",
    ]
    assert found(info(A[0], ALONE[0])) == ["10.9.1.1"]
    assert cluster_network.of_hosts({}) == {}


def test_one_host_without_a_default_route() -> None:
    assert found(info(LO, A[0], DOCKER)) == ["10.0.0.1"]
    assert found(info(LO, DOCKER, {**A[0], "named": "ansible_host"})) == ["10.0.0.1"]
    assert found(info(LO)) == [NO_IPV4]
