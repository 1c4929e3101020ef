from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall

RULES = firewall.rules(
    ["10.0.0.1", "10.0.0.2"],
    ["192.0.2.0/24", "2001:db8::/32"],
    2222,
    [{"networks": ["198.51.100.7"], "port": 9100}, {"networks": ["198.51.100.0/24"], "port": 161, "protocol": "udp"}],
)


def test_rules() -> None:
    assert RULES == [
        {"network": "10.0.0.1/32", "protocol": "tcp", "port": 0},
        {"network": "10.0.0.2/32", "protocol": "tcp", "port": 0},
        {"network": "192.0.2.0/24", "protocol": "tcp", "port": 2222},
        {"network": "2001:db8::/32", "protocol": "tcp", "port": 2222},
        {"network": "198.51.100.7/32", "protocol": "tcp", "port": 9100},
        {"network": "198.51.100.0/24", "protocol": "udp", "port": 161},
    ]
    assert firewall.rules(["10.0.0.1"], ["192.0.2.9/24", "192.0.2.0/24"])[1:] == [
        {"network": "192.0.2.0/24", "protocol": "tcp", "port": 22}
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cluster": ["node1"]}, "cluster address: 'node1' is not a network such as 10.0.0.0/24"),
        (
            {"cluster": [], "admin_networks": ["10.0.0.0/33"]},
            "firewall_admin_networks: '10.0.0.0/33' is not a network such as 10.0.0.0/24",
        ),
        ({"cluster": [], "ssh_port": 0}, "firewall_ssh_port: 0 is not a port from 1 to 65535"),
        (
            {"cluster": [], "allow": [{"networks": ["10.0.0.1"], "port": "http"}]},
            "firewall_allow: 'http' is not a port from 1 to 65535",
        ),
        (
            {"cluster": [], "allow": [{"networks": ["10.0.0.1"], "port": 1, "protocol": "icmp"}]},
            "firewall_allow: the protocol 'icmp' is not one of tcp, udp",
        ),
    ],
)
def test_rules_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        firewall.rules(**arguments)


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        ("", ""),
        ("10.0.0.1 50000 10.0.0.2 22", ""),
        ("192.0.2.200 50000 10.0.0.2 2222", ""),
        ("::ffff:192.0.2.200 50000 ::ffff:10.0.0.2 2222", ""),
        ("2001:db8::5 50000 2001:db8::1 2222", ""),
        ("127.0.0.1 50000 127.0.0.1 22", ""),
        ("::1 50000 ::1 22", ""),
        ("192.0.2.200 50000 10.0.0.2 22", "Ansible connects from 192.0.2.200 to port 22, which no rule accepts"),
        ("203.0.113.5 50000 10.0.0.2 2222", "Ansible connects from 203.0.113.5 to port 2222, which no rule accepts"),
        ("fe80::1%eth0 50000 fe80::2 2222", "Ansible connects from fe80::1%eth0 to port 2222, which no rule accepts"),
    ],
)
def test_cut_off(connection: str, reason: str) -> None:
    assert firewall.cut_off(RULES, connection) == reason


def test_cut_off_refuses_what_it_cannot_read() -> None:
    with pytest.raises(ValueError, match=r"^SSH_CONNECTION: '1 2 3' is not two addresses with their ports$"):
        firewall.cut_off(RULES, "1 2 3")


def test_admits_by_protocol() -> None:
    assert firewall.admits(RULES, "198.51.100.9", 161, "udp")
    assert not firewall.admits(RULES, "198.51.100.9", 161)
    assert not firewall.admits(RULES, "10.0.0.1", 161, "udp")


@pytest.mark.parametrize(
    ("place", "nft", "rich"),
    [
        (
            0,
            "ip saddr 10.0.0.1/32 meta l4proto 6 accept",
            'rule family="ipv4" source address="10.0.0.1/32" protocol value="tcp" accept',
        ),
        (
            3,
            "ip6 saddr 2001:db8::/32 tcp dport 2222 accept",
            'rule family="ipv6" source address="2001:db8::/32" port port="2222" protocol="tcp" accept',
        ),
        (
            5,
            "ip saddr 198.51.100.0/24 udp dport 161 accept",
            'rule family="ipv4" source address="198.51.100.0/24" port port="161" protocol="udp" accept',
        ),
    ],
)
def test_written(place: int, nft: str, rich: str) -> None:
    assert firewall.written(RULES[place]) == {**RULES[place], "nft_rule": nft, "rich_rule": rich}


def test_stale() -> None:
    gone = {"network": "10.0.0.9/32", "protocol": "tcp", "port": 0}
    recorded = [firewall.written(RULES[0]), firewall.written(gone), {**RULES[2], "port": 22}]
    assert firewall.stale(recorded, RULES) == [gone, {**RULES[2], "port": 22}]
    assert firewall.stale([], RULES) == []
    assert firewall.stale(RULES, []) == RULES


def test_zones() -> None:
    assert firewall.in_zones(RULES, []) == RULES
    rule = RULES[0]
    rules = firewall.in_zones([rule], ["internal", "", "internal"])
    assert rules == [{**rule, "zone": "internal"}, {**rule, "zone": ""}]
    assert firewall.written(rules[0])["rich_rule"] == firewall.written(rule)["rich_rule"]
    # A previous version recorded no zone, and made its rules in the default one.
    assert firewall.stale([rule], rules) == []
    assert firewall.stale([rule], rules[:1]) == [rule]
    assert firewall.stale([firewall.written(rules[0])], rules[1:]) == rules[:1]
