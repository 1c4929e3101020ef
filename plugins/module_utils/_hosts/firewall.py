# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections that a host's firewall accepts, as one list of rules which each backend has its own syntax for.

Every rule that is made carries a mark, and only what carries it is removed. nftables has a table of its own with the
comment MARK. A rule of ufw has the comment MARK; ufw keeps one rule for each match, so that one which an administrator
made before stays theirs. A rich rule of firewalld can have no comment: it has the priority PRIORITY, by which an equal
rule of an administrator's is another rule, and is in the record of those that were added.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._ownership import Places

PROTOCOLS = ("tcp", "udp")
BACKENDS = ("nftables", "ufw", "firewalld")
MARK = "amx_cluster"
# Of no rule that a person or another program writes. Above 0: rules of the administrator that refuse come first.
PRIORITY = 26843
# The first port that Linux gives to clients (net.ipv4.ip_local_port_range).
EPHEMERAL = 32768
# The rules that the role firewall has added.
RECORD = "var/lib/amx-cluster/firewall.json"
PLACES = Places(
    "firewall",
    files=(
        "etc/amx-cluster/firewall.nft",
        "etc/amx-cluster/firewall_rollback.sh",
        "etc/systemd/system/amx-cluster-firewall.service",
        RECORD,
    ),
)
# A rule in the files of ufw: action, protocol, port, destination, source port, source, direction.
_TUPLE = re.compile(
    r"### tuple ### (\S+) (tcp|udp) (any|\d+) (?:0\.0\.0\.0/0|::/0) any (\S+) in(?: comment=([0-9a-f]*))?", re.ASCII
)


def _network(value: Any, where: str) -> str:
    try:
        return str(ipaddress.ip_network(str(value), strict=False))
    except ValueError:
        raise ValueError(f"{where}: {value!r} is not a network such as 10.0.0.0/24") from None


def _port(value: Any, where: str) -> int:
    try:
        port = int(value)
    except (TypeError, ValueError):
        port = 0
    if not 0 < port < 65536:
        raise ValueError(f"{where}: {value!r} is not a port from 1 to 65535")
    return port


def rules(
    cluster: Sequence[str],
    admin_networks: Sequence[str] = (),
    ssh_port: int = 22,
    allow: Iterable[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return who may open connections: [{network: CIDR, protocol: tcp or udp, port: number, 0 for every one}].

    cluster: the hosts' addresses on the cluster network, between which all TCP is accepted, because MPI and gloo listen
    on ephemeral ports. admin_networks: CIDRs from which ssh is accepted. allow: {networks, port, protocol (tcp)} of
    what else is. Raises ValueError for what is no address, network or port.
    """
    rules = [{"network": _network(address, "cluster address"), "protocol": "tcp", "port": 0} for address in cluster]
    port = _port(ssh_port, "firewall_ssh_port")
    for network in admin_networks:
        rules.append({"network": _network(network, "firewall_admin_networks"), "protocol": "tcp", "port": port})
    for entry in allow:
        protocol = entry.get("protocol", "tcp")
        if protocol not in PROTOCOLS:
            raise ValueError(f"firewall_allow: the protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
        for network in entry.get("networks", []):
            rules.append(
                {
                    "network": _network(network, "firewall_allow"),
                    "protocol": protocol,
                    "port": _port(entry.get("port"), "firewall_allow"),
                }
            )
    return [rule for place, rule in enumerate(rules) if rule not in rules[:place]]


def admits(rules: Iterable[Mapping[str, Any]], source: str, port: int, protocol: str = "tcp") -> bool:
    """Return whether a new connection from the address `source` to `port` is accepted.

    Raises ValueError when `source` is no address.
    """
    address = ipaddress.ip_address(source.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return any(
        rule["protocol"] == protocol
        and rule["port"] in (0, port)
        and address in ipaddress.ip_network(rule["network"])  # False for the other family
        for rule in rules
    )


def cut_off(
    rules: Iterable[Mapping[str, Any]], connection: str, removed: Iterable[Mapping[str, Any]] | None = None
) -> str:
    """Return why Ansible could not connect again; empty when it could.

    connection: what the host's sshd reports of the connection that Ansible uses, SSH_CONNECTION in ssh(1): the client's
    address and port, and the host's. Empty when Ansible does not use ssh, and then nothing can be cut off. Behind a
    jump host the client is the jump host, which is what the firewall sees, too. removed: the rules that are removed
    from a firewall whose other rules stay; what none of them accepts, these other rules do. None where `rules` are all
    that is accepted.
    """
    words = connection.split()
    if not words:
        return ""
    if len(words) != 4:
        raise ValueError(f"SSH_CONNECTION: {connection!r} is not two addresses with their ports")
    source, port = words[0], int(words[3])
    if ipaddress.ip_address(source.partition("%")[0]).is_loopback or admits(rules, source, port):
        return ""
    if removed is not None and not admits(removed, source, port):
        return ""
    return f"Ansible connects from {source} to port {port}, which no rule accepts"


def cut_services(listening: str, allow: Iterable[Mapping[str, Any]], ssh_port: int) -> list[str]:
    """Return the services of a host that only the cluster's hosts could reach then, as `PORT/PROTOCOL (PROGRAM)`.

    listening: the output of `ss -Hltunp`, as root. allow: as of `rules`; a port that it has is not returned, though it
    be for no network. Neither are services of loopback, UDP sockets of programs on ephemeral ports, most often clients,
    DHCP, and ports that Docker publishes, about which its own rules decide.
    """
    named = {("tcp", ssh_port), ("udp", 68), ("udp", 546)}
    named |= {(entry.get("protocol", "tcp"), _port(entry.get("port"), "firewall_allow")) for entry in allow}
    services: dict[tuple[int, str], str] = {}
    for line in listening.splitlines():
        protocol, *words = line.split()
        address, _colon, port = "".join(words[3:4]).rpartition(":")
        if not port.isdigit() or (protocol, int(port)) in named:
            continue
        plain = address.strip("[]").partition("%")[0]
        local = ipaddress.ip_address("0.0.0.0" if plain == "*" else plain)
        program = re.search(r'\(\("([^"]+)"', line)
        name = program[1] if program else "kernel"  # such as WireGuard
        of_client = protocol == "udp" and program and int(port) >= EPHEMERAL
        is_local = (getattr(local, "ipv4_mapped", None) or local).is_loopback
        if not is_local and not of_client and name != "docker-proxy":
            services[int(port), protocol] = name
    return [f"{port}/{protocol} ({services[port, protocol]})" for port, protocol in sorted(services)]


def in_zones(rules: Iterable[Mapping[str, Any]], zones: Sequence[str]) -> list[dict[str, Any]]:
    """Return every rule in every zone of firewalld, as its `zone`. Without zones, the rules."""
    if not zones:
        return [dict(rule) for rule in rules]
    return [{**rule, "zone": zone} for rule in rules for zone in dict.fromkeys(zones)]


def changes(
    backend: str, rules: Sequence[Mapping[str, Any]], recorded: Iterable[Mapping[str, Any]], listed: str
) -> dict[str, Any]:
    """Return what is to be changed so that the rules that carry the mark are `rules`.

    recorded: the rules that earlier runs added, which is the mark in firewalld. listed: the rules that the host has,
    as the files of ufw have them, or as `firewall-cmd --list-all-zones` prints them.

    rules: those that are, or become, the collection's own: an equal rule without the mark stays as it is. stale: those
    that carry the mark and are no longer in use. change: the commands, of which those that add come first. rollback:
    the commands that undo it in firewalld; ufw gets its files back. Raises ValueError for rules that ufw would replace.
    """
    if backend not in ("ufw", "firewalld"):
        return {"rules": [dict(rule) for rule in rules], "stale": [], "change": [], "rollback": []}
    if backend == "ufw":
        there = _ufw_rules(listed)
        own = whole = [rule for rule, action, comment in there if action == "allow" and comment == MARK]
        present = [rule for rule, _action, _comment in there]
        for rule, action, _comment in there:
            if rule in rules and not action.startswith("allow"):
                raise ValueError(
                    f"ufw has a rule '{action}' for what is to be accepted, and would replace it. Delete it, or take "
                    f"its network out of the rules: ufw delete {action} {_ufw_match(rule)}"
                )
    else:
        texts = _rich_rules(listed)
        own = [rule for rule in map(_plain, recorded) if (rule["zone"], rich_rule(rule)) in texts]
        present = [dict(rule) for rule in rules if (rule["zone"], rich_rule(rule)) in texts]
        # In the configuration until the next reload as well as in that after it.
        whole = [rule for rule in own if texts.count((rule["zone"], rich_rule(rule))) > 1]
    made = [dict(rule) for rule in rules if rule in own or rule not in present]
    new = [rule for rule in made if rule not in whole]
    old = [rule for rule in own if rule not in rules]
    commands = _ufw_commands if backend == "ufw" else _firewalld_commands
    return {
        "rules": made,
        "stale": old,
        "change": [*commands(new, True), *commands(old, False)],
        "rollback": [*commands(old, True), *commands([rule for rule in new if rule not in own], False)]
        if backend == "firewalld"
        else [],
    }


def marked(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the rules in a record, and by which mark each is known as the collection's own.

    record: {backend, rules, previous: the record of another backend whose rules are still to be removed}.
    """
    previous = marked(record["previous"]) if record.get("previous") else {}
    rules = record.get("rules", [])
    if record.get("backend") == "ufw":
        return {f"ufw allow {_ufw_match(rule)}": f"comment {MARK}" for rule in rules} | previous
    if record.get("backend") == "firewalld":
        mark = f"priority {PRIORITY}, and recorded when it was added"
        return {f"firewalld, zone {rule['zone']}: {rich_rule(rule)}": mark for rule in rules} | previous
    return {"table inet amx_cluster": f"comment {MARK}"} | previous


def recorded(root: Path = Path("/")) -> dict[str, str]:
    """Return the rules in the record of a host, and by which mark each is known."""
    record = read_json(root / RECORD)
    return marked(record) if record else {}


def _plain(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded rule without its texts."""
    return {key: rule[key] for key in ("network", "protocol", "port", "zone") if key in rule}


def _ufw_rules(listed: str) -> list[tuple[dict[str, Any], str, str]]:
    """Return what the files of ufw have of rules such as the collection's: rule, action, comment."""
    rules = []
    for line in listed.splitlines():
        match = _TUPLE.fullmatch(line.strip())
        if match:
            action, protocol, port, network, comment = match.groups()
            rule = {
                "network": _network(network, "ufw"),
                "protocol": protocol,
                "port": 0 if port == "any" else int(port),
            }
            rules.append((rule, action, bytes.fromhex(comment or "").decode(errors="replace")))
    return rules


def _rich_rules(listed: str) -> list[tuple[str, str]]:
    """Return zone and text of each rich rule that firewall-cmd lists."""
    rules = []
    zone = ""
    for line in listed.splitlines():
        if line and not line[0].isspace():
            zone = line.split()[0]
        elif line.strip().startswith("rule "):
            rules.append((zone, line.strip()))
    return rules


def _ufw_match(rule: Mapping[str, Any]) -> str:
    to = f" to any port {rule['port']}" if rule["port"] else ""
    return f"from {rule['network']}{to} proto {rule['protocol']}"


def _ufw_commands(rules: Iterable[Mapping[str, Any]], add: bool) -> list[str]:
    words = ("ufw allow", f" comment {MARK}") if add else ("ufw delete allow", "")
    return [f"{words[0]} {_ufw_match(rule)}{words[1]}" for rule in rules]


def _firewalld_commands(rules: Iterable[Mapping[str, Any]], add: bool) -> list[str]:
    """Return one command for each zone, and for the configuration until and after the next reload."""
    zones: dict[str, list[str]] = {}
    for rule in rules:
        zones.setdefault(rule["zone"], []).append(f"--{'add' if add else 'remove'}-rich-rule={rich_rule(rule)}")
    return [
        shlex.join(["firewall-cmd", "--quiet", *permanent, f"--zone={zone}", *options])
        for zone, options in zones.items()
        for permanent in ((), ("--permanent",))
    ]


def written(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule together with its text for nftables (nft_rule) and for firewalld (rich_rule)."""
    return {**rule, "nft_rule": nft_rule(rule), "rich_rule": rich_rule(rule)}


def nft_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in the syntax of nft(8).

    Without a port the protocol is given by its number, since a small host has no /etc/protocols that knows its name.
    """
    family = "ip" if ipaddress.ip_network(rule["network"]).version == 4 else "ip6"
    number = {"tcp": 6, "udp": 17}[rule["protocol"]]
    match = f"{rule['protocol']} dport {rule['port']}" if rule["port"] else f"meta l4proto {number}"
    return f"{family} saddr {rule['network']} {match} accept"


def rich_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in firewalld's rich language (firewalld.richlanguage(5))."""
    family = f"ipv{ipaddress.ip_network(rule['network']).version}"
    match = (
        f'port port="{rule["port"]}" protocol="{rule["protocol"]}"'
        if rule["port"]
        else f'protocol value="{rule["protocol"]}"'
    )
    return f'rule priority="{PRIORITY}" family="{family}" source address="{rule["network"]}" {match} accept'
