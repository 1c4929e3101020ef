# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections that a host's firewall accepts, as one list of rules which each backend has its own syntax for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PROTOCOLS = ("tcp", "udp")


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
    found = [{"network": _network(address, "cluster address"), "protocol": "tcp", "port": 0} for address in cluster]
    port = _port(ssh_port, "firewall_ssh_port")
    for network in admin_networks:
        found.append({"network": _network(network, "firewall_admin_networks"), "protocol": "tcp", "port": port})
    for entry in allow:
        protocol = entry.get("protocol", "tcp")
        if protocol not in PROTOCOLS:
            raise ValueError(f"firewall_allow: the protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
        for network in entry.get("networks", []):
            found.append(
                {
                    "network": _network(network, "firewall_allow"),
                    "protocol": protocol,
                    "port": _port(entry.get("port"), "firewall_allow"),
                }
            )
    return [rule for place, rule in enumerate(found) if rule not in found[:place]]


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


def cut_off(rules: Iterable[Mapping[str, Any]], connection: str) -> str:
    """Return why Ansible could not connect again; empty when it could.

    connection: what the host's sshd reports of the connection that Ansible uses, SSH_CONNECTION in ssh(1): the client's
    address and port, and the host's. Empty when Ansible does not use ssh, and then nothing can be cut off. Behind a
    jump host the client is the jump host, which is what the firewall sees, too.
    """
    words = connection.split()
    if not words:
        return ""
    if len(words) != 4:
        raise ValueError(f"SSH_CONNECTION: {connection!r} is not two addresses with their ports")
    source, port = words[0], int(words[3])
    if ipaddress.ip_address(source.partition("%")[0]).is_loopback or admits(rules, source, port):
        return ""
    return f"Ansible connects from {source} to port {port}, which no rule accepts"


def in_zones(rules: Iterable[Mapping[str, Any]], zones: Sequence[str]) -> list[dict[str, Any]]:
    """Return every rule in every zone of firewalld, as its `zone`; "" is the default one. Without zones, the rules."""
    if not zones:
        return [dict(rule) for rule in rules]
    return [{**rule, "zone": zone} for rule in rules for zone in dict.fromkeys(zones)]


def stale(recorded: Iterable[Mapping[str, Any]], rules: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules that a previous run made, and that are no longer in `rules`."""
    keys = ("network", "protocol", "port", "zone")
    # A rule without a zone was made in firewalld's default zone.
    current = [{"zone": "", **{key: rule[key] for key in keys if key in rule}} for rule in rules]
    made = [{key: rule[key] for key in keys if key in rule} for rule in recorded]
    return [rule for rule in made if {"zone": "", **rule} not in current]


def written(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule together with its text for nftables (nft_rule) and for firewalld (rich_rule)."""
    return {**rule, "nft_rule": nft_rule(rule), "rich_rule": rich_rule(rule)}


def nft_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in the syntax of nft(8).

    Without a port the protocol is given by its number, since a small host has no /etc/protocols that knows its name.
    """
    family = "ip" if ipaddress.ip_network(rule["network"]).version == 4 else "ip6"
    number = {"tcp": 6, "udp": 17}[rule["protocol"]]
    what = f"{rule['protocol']} dport {rule['port']}" if rule["port"] else f"meta l4proto {number}"
    return f"{family} saddr {rule['network']} {what} accept"


def rich_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in firewalld's rich language (firewalld.richlanguage(5))."""
    family = f"ipv{ipaddress.ip_network(rule['network']).version}"
    what = (
        f'port port="{rule["port"]}" protocol="{rule["protocol"]}"'
        if rule["port"]
        else f'protocol value="{rule["protocol"]}"'
    )
    return f'rule family="{family}" source address="{rule["network"]}" {what} accept'
