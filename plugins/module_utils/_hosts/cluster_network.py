# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network over which ranks communicate: cluster_network of the inventory, else one that all hosts share."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

Addresses = Sequence[Mapping[str, Any]]
"""Addresses of a host, as facts.addresses returns them."""


def of_host(addresses: Addresses, network: str) -> dict[str, str]:
    """Return `interface` of a host; {"refused": why} where there is none."""
    try:
        return interface(addresses, network)
    except ValueError as error:
        return {"refused": str(error)}


def shared(hosts: Mapping[str, Addresses]) -> list[str]:
    """Return the networks (CIDR) in which every host has an address of its own.

    Bridges of containers and virtual machines have the same address on all hosts, and link-local addresses (169.254),
    such as those of management controllers, connect none. hosts: {host: its addresses}.
    """
    own = [
        {
            row["network"]: row
            for row in addresses
            if not ((known := ipaddress.ip_address(row["address"])).is_loopback or known.is_link_local)
        }
        for addresses in hosts.values()
    ]
    return [
        network
        for network in (own[0] if own else ())
        if all(network in rows for rows in own) and len({rows[network]["address"] for rows in own}) == len(own)
    ]


def of_hosts(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return of_host of each host, in a network that all share where the inventory names none.

    That of all default routes or of each cluster_address comes first, then that of all ansible_host, then the only
    one. Where hosts share none, each takes that of its default route: routers may connect them. One host without a
    default route, as in a job of the head alone, takes any.

    infos: {host: what host_info returned}.
    """
    own = {host: dict(info["network"]) for host, info in infos.items()}
    alone = len(infos) == 1
    if any(info["network_given"] or (alone and "refused" not in info["network"]) for info in infos.values()):
        return own
    networks = shared({host: info["addresses"] for host, info in infos.items()})
    if not networks or any({entry.get("network") for entry in own.values()} == {network} for network in networks):
        return own
    reached = [
        network
        for network in networks
        if all(any(row["network"] == network and row["named"] for row in info["addresses"]) for info in infos.values())
    ]
    if not reached and networks[1:] and not alone:
        why = f"all hosts have addresses in {' and in '.join(networks)}, and no variable says which network ranks use"
        return {host: {"refused": why} for host in infos}
    return {host: of_host(info["addresses"], (reached or networks)[0]) for host, info in infos.items()}


def interface(addresses: Sequence[Mapping[str, Any]], network: str) -> dict[str, str]:
    """Find the interface of a host that carries the cluster network.

    addresses: the host's, as facts.addresses returns them. network: the CIDR, or an empty string for the network of
    the host's default route. Of several in it, the one is taken that cluster_address names, else ansible_host, else
    the first one of their interface whose network has other addresses as well: a floating address comes later, or is
    a network of its own (/32).

    Returns {"interface": name, "address": IPv4 address, "network": CIDR}. Raises ValueError when `network` is no CIDR,
    or when no address lies in it, or those of several interfaces.
    """
    listed = ", ".join(f"{row['interface']} {row['address']} in {row['network']}" for row in addresses) or "none"
    if network:
        try:
            wanted = ipaddress.ip_network(network, strict=False)
        except ValueError:
            raise ValueError(f"cluster_network: {network!r} is not a network such as 10.0.0.0/24") from None
        if wanted.version == 6:
            raise ValueError(
                f"cluster_network {network} is a network of IPv6, and ranks communicate over IPv4 only: give the hosts "
                "IPv4 addresses in one network, private ones will do, and set cluster_network to it; its addresses: "
                f"{listed}"
            )
        matching = [row for row in addresses if ipaddress.ip_address(row["address"]) in wanted]
        chosen = next((row for row in addresses if row.get("named") == "cluster_address"), None)
        if not matching or (chosen and chosen not in matching):
            subject = f"cluster_address {chosen['address']}" if chosen else "none of the host's addresses"
            is_in = "does not lie" if chosen else "lies"
            raise ValueError(f"{subject} {is_in} in cluster_network {network}; its addresses: {listed}")
    else:
        named = [row for row in addresses if row.get("named") == "cluster_address"]
        matching = named or [row for row in addresses if row["default"]]
        if not matching:
            if all(ipaddress.ip_address(row["address"]).is_loopback for row in addresses):
                raise ValueError(
                    "the host has no IPv4 address besides the loopback, and ranks communicate over IPv4 only: give the "
                    "hosts IPv4 addresses in one network, private ones will do. For a cluster of one host, set "
                    "cluster_network to 127.0.0.0/8"
                )
            raise ValueError(
                f"cluster_network is not set and the host has no default route of IPv4; its addresses: {listed}"
            )
    row = _choose(matching)
    if row is None:
        raise ValueError(
            f"{len(matching)} of the host's addresses lie in cluster_network {network}, on several "
            "interfaces: set cluster_address of this host to the one over which ranks communicate; its addresses: "
            f"{listed}"
        )
    return {key: row[key] for key in ("interface", "address", "network")}


def _choose(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the one of several addresses that is the host's own, or None where that cannot be known."""
    for variable in ("cluster_address", "ansible_host"):
        named = [row for row in rows if row.get("named") == variable]
        if named:
            return named[0]
    if len({row["interface"] for row in rows}) > 1:
        return None
    return next((row for row in rows if not row["network"].endswith("/32")), rows[0])
