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
            'rule priority="26843" family="ipv4" source address="10.0.0.1/32" protocol value="tcp" accept',
        ),
        (
            3,
            "ip6 saddr 2001:db8::/32 tcp dport 2222 accept",
            'rule priority="26843" family="ipv6" source address="2001:db8::/32" port port="2222" protocol="tcp" accept',
        ),
        (
            5,
            "ip saddr 198.51.100.0/24 udp dport 161 accept",
            'rule priority="26843" family="ipv4" source address="198.51.100.0/24" port port="161" protocol="udp"'
            " accept",
        ),
    ],
)
def test_written(place: int, nft: str, rich: str) -> None:
    assert firewall.written(RULES[place]) == {**RULES[place], "nft_rule": nft, "rich_rule": rich}


SSH = {"network": "192.0.2.0/24", "protocol": "tcp", "port": 22}
HOST = {"network": "10.0.0.1/32", "protocol": "tcp", "port": 0}
OLD = {"network": "2001:db8::5/128", "protocol": "udp", "port": 161}
MARKED = " comment=616d785f636c7573746572"


def in_ufw(ssh: str = "allow", mark: str = "") -> str:
    """The lines of ufw's files: rules of others, SSH from a network, and two with the mark."""
    return (
        "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n"
        "### tuple ### allow tcp 22 0.0.0.0/0 any 192.0.2.0/24 in_eth0\n"
        "### tuple ### allow tcp 22 0.0.0.0/0 any 192.0.2.0/24 OpenSSH - in\n"
        "### tuple ### allow tcp 80,443 0.0.0.0/0 any 192.0.5.0/24 in\n"
        f"### tuple ### {ssh} tcp 22 0.0.0.0/0 any 192.0.2.0/24 in{mark}\n"
        f"### tuple ### allow tcp any 0.0.0.0/0 any 10.0.0.1 in{MARKED}\n"
        f"### tuple ### allow udp 161 ::/0 any 2001:db8::5 in{MARKED}\n"
    )


@pytest.mark.parametrize("action", ["allow", "allow_log"])
@pytest.mark.parametrize("mark", ["", " comment=61646d696e"])
def test_a_rule_of_ufw_without_the_mark_is_not_the_collections(action: str, mark: str) -> None:
    wanted = firewall.changes("ufw", [HOST, SSH], [SSH, HOST, OLD], in_ufw(action, mark))
    assert wanted["rules"] == [HOST]
    assert wanted["stale"] == [OLD]
    assert wanted["change"] == ["ufw delete allow from 2001:db8::5/128 to any port 161 proto udp"]
    removed = firewall.changes("ufw", [], [SSH, HOST, OLD], in_ufw(action, mark))
    assert removed["stale"] == [HOST, OLD]
    assert not any("192.0.2.0" in command for command in removed["change"])


def test_ufw_adds_first_then_removes() -> None:
    new = {"network": "0.0.0.0/0", "protocol": "tcp", "port": 9100}
    wanted = firewall.changes("ufw", [SSH, new], [], in_ufw(mark=MARKED))
    assert wanted["rules"] == [SSH, new]
    assert wanted["change"] == [
        "ufw allow from 0.0.0.0/0 to any port 9100 proto tcp comment amx_cluster",
        "ufw delete allow from 10.0.0.1/32 proto tcp",
        "ufw delete allow from 2001:db8::5/128 to any port 161 proto udp",
    ]
    assert firewall.changes("ufw", [SSH, HOST, OLD], [], in_ufw(mark=MARKED))["change"] == []


@pytest.mark.parametrize("action", ["limit", "deny", "reject_log"])
def test_a_rule_that_ufw_would_replace_is_refused(action: str) -> None:
    with pytest.raises(ValueError, match=f"ufw delete {action} from 192.0.2.0/24 to any port 22 proto tcp$"):
        firewall.changes("ufw", [SSH], [], in_ufw(action))
    assert firewall.changes("ufw", [], [], in_ufw(action))["stale"] == [HOST, OLD]


def in_firewalld(*rules: str, times: int = 2) -> str:
    """What firewall-cmd lists, of now and after a reload."""
    zone = "public (active)\n  target: default\n  services: ssh\n  rich rules: \n"
    other = "trusted\n  target: ACCEPT\n  rich rules: \n"
    return (zone + "".join(f"\t{rule}\n" for rule in rules) + "\n" + other) * times


def test_firewalld_has_a_rule_of_its_own_beside_an_equal_one() -> None:
    ssh, old = ({**rule, "zone": "public"} for rule in (SSH, OLD))
    theirs = 'rule family="ipv4" source address="192.0.2.0/24" port port="22" protocol="tcp" accept'
    wanted = firewall.changes(
        "firewalld", [ssh], [firewall.written(old)], in_firewalld(theirs, firewall.rich_rule(OLD))
    )
    assert (wanted["rules"], wanted["stale"]) == ([ssh], [old])
    add, permanent, remove, at_last = wanted["change"]
    assert add == f"firewall-cmd --quiet --zone=public '--add-rich-rule={firewall.rich_rule(SSH)}'"
    assert permanent == f"firewall-cmd --quiet --permanent --zone=public '--add-rich-rule={firewall.rich_rule(SSH)}'"
    assert remove == f"firewall-cmd --quiet --zone=public '--remove-rich-rule={firewall.rich_rule(OLD)}'"
    assert "--permanent" in at_last
    assert [command.replace("--add", "--remove") for command in (add, permanent)] == wanted["rollback"][2:]
    assert [command.replace("--remove", "--add") for command in (remove, at_last)] == wanted["rollback"][:2]


def test_a_rule_of_firewalld_is_removed_only_if_it_was_recorded() -> None:
    ssh = {**SSH, "zone": "public"}
    there = in_firewalld(firewall.rich_rule(SSH))
    assert firewall.changes("firewalld", [ssh], [], there) == {"rules": [], "stale": [], "change": [], "rollback": []}
    assert firewall.changes("firewalld", [], [], there)["change"] == []
    assert firewall.changes("firewalld", [], [{**ssh, "zone": "trusted"}], there)["change"] == []
    assert len(firewall.changes("firewalld", [], [ssh], there)["change"]) == 2
    assert firewall.changes("firewalld", [ssh], [ssh], there)["change"] == []
    # Gone after the next reload, or until then: it is added again.
    assert (
        len(firewall.changes("firewalld", [ssh], [ssh], in_firewalld(firewall.rich_rule(SSH), times=1))["change"]) == 2
    )


def test_nftables_has_nothing_to_change_beside_its_table() -> None:
    assert firewall.changes("nftables", [SSH], [OLD], "") == {"rules": [SSH], "stale": [], "change": [], "rollback": []}


@pytest.mark.parametrize(
    ("removed", "cut"),
    [
        (None, True),
        ([], False),  # what is accepted now is accepted by rules of others, which stay
        ([HOST], False),
        ([SSH], True),
        ([{**SSH, "port": 2222}], False),
    ],
)
def test_cut_off_by_what_is_removed(removed: list[dict[str, Any]] | None, cut: bool) -> None:
    assert bool(firewall.cut_off([HOST], "192.0.2.7 50000 10.0.0.2 22", removed)) == cut
    assert not firewall.cut_off([HOST, SSH], "192.0.2.7 50000 10.0.0.2 22", removed)


def test_zones() -> None:
    assert firewall.in_zones(RULES, []) == RULES
    rule = RULES[0]
    rules = firewall.in_zones([rule], ["internal", "public", "internal"])
    assert rules == [{**rule, "zone": "internal"}, {**rule, "zone": "public"}]
    assert firewall.written(rules[0])["rich_rule"] == firewall.written(rule)["rich_rule"]


def test_the_rules_of_a_record_have_marks() -> None:
    record = {
        "backend": "ufw",
        "rules": [HOST, firewall.written(SSH)],
        "previous": {"backend": "firewalld", "rules": [{**OLD, "zone": "public"}]},
    }
    assert firewall.marked(record) == {
        "ufw allow from 10.0.0.1/32 proto tcp": "comment amx_cluster",
        "ufw allow from 192.0.2.0/24 to any port 22 proto tcp": "comment amx_cluster",
        f"firewalld, zone public: {firewall.rich_rule(OLD)}": "priority 26843, and recorded when it was added",
    }
    assert firewall.marked({"backend": "nftables"}) == {"table inet amx_cluster": "comment amx_cluster"}


def test_services_that_are_cut_off() -> None:
    listening = """\
tcp   LISTEN 0      128          0.0.0.0:22        0.0.0.0:*    users:(("sshd",pid=100,fd=3))
tcp   LISTEN 0      4096               *:9100            *:*    users:(("node_exporter",pid=7,fd=3))
tcp   LISTEN 0      511       127.0.0.1:6379       0.0.0.0:*    users:(("redis-server",pid=8,fd=6))
tcp   LISTEN 0      4096   127.0.0.53%lo:53        0.0.0.0:*    users:(("systemd-resolve",pid=9,fd=14))
tcp   LISTEN 0      511            [::1]:6379         [::]:*    users:(("redis-server",pid=8,fd=7))
tcp   LISTEN 0      50     [::ffff:127.0.0.1]:8005       *:*    users:(("java",pid=5,fd=80))
tcp   LISTEN 0      244       10.0.0.1:5432        0.0.0.0:*    users:(("postgres",pid=12,fd=6))
tcp   LISTEN 0      128             [::]:80           [::]:*    users:(("nginx",pid=11,fd=6),("nginx",pid=12,fd=6))
tcp   LISTEN 0      4096         0.0.0.0:8080      0.0.0.0:*    users:(("docker-proxy",pid=13,fd=7))
udp   UNCONN 0      0            0.0.0.0:161       0.0.0.0:*    users:(("snmpd",pid=14,fd=6))
udp   UNCONN 0      0    10.0.0.1%enp1s0:68        0.0.0.0:*    users:(("systemd-network",pid=15,fd=6))
udp   UNCONN 0      0            0.0.0.0:40111     0.0.0.0:*    users:(("avahi-daemon",pid=16,fd=14))
udp   UNCONN 0      0            0.0.0.0:51820     0.0.0.0:*
"""
    allow = [{"networks": ["192.0.2.0/24"], "port": 80}, {"networks": [], "port": 161, "protocol": "udp"}]
    cut = ["5432/tcp (postgres)", "9100/tcp (node_exporter)", "51820/udp (kernel)"]
    assert firewall.cut_services(listening, allow, 22) == cut
    assert firewall.cut_services(listening, [{"networks": [], "port": 161}], 22)[:2] == [
        "80/tcp (nginx)",
        "161/udp (snmpd)",
    ]
    assert firewall.cut_services("", allow, 22) == []
