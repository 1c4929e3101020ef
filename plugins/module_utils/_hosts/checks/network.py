# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of hosts' addresses on the cluster network, of name resolution and of connections between hosts."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import cluster_network, peers
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
    message_of,
)


@check(
    FAILURE,
    cause="Ranks use different networks, and the start of a job hangs",
    advice="Set cluster_network to the network over which ranks communicate",
)
def network(cluster: Cluster) -> Iterator[Found]:
    for host, entry in cluster.networks.items():
        if refused := entry.get("refused"):
            # The message says what to do itself where it is another variable.
            advice = "Set cluster_address in the variables of this host" if "cluster_address" in refused else ""
            yield Found(host, refused, advice)


@check(
    WARNING,
    cause="Ranks may exchange gradients over the slower network",
    advice="Set cluster_network to the one over which ranks communicate",
)
def several_networks(cluster: Cluster) -> Iterator[Found]:
    infos = cluster.infos
    if len(infos) < 2 or any(info["network_given"] for info in infos.values()):
        return
    used = {entry.get("network") for entry in cluster.networks.values()}
    networks = cluster_network.shared({host: info["addresses"] for host, info in infos.items()})
    routes = {info["network"].get("network") for info in infos.values()}
    if len(used) == 1 and used <= {*networks}:
        network = next(iter(used))
        others = " and ".join(sorted({*networks} - used))
        if others:
            yield Found(cluster.head, f"all hosts have addresses in {others}, too, and ranks use {network}")
        elif routes != used:
            # A job on some of the hosts would see that these share another one, and nothing of the rest.
            yield Found(cluster.head, f"ranks use {network}, which all hosts share, and their default routes differ")


def name_of_host(_prefix: Path) -> dict[str, Any]:
    name = socket.gethostname()
    return {"name": name, "name_addresses": peers.resolve([name])[name]}


@check(
    WARNING,
    cause="Programs that listen on the address of the host's name cannot be reached (gloo: Using the loopback, "
    "connectFullMesh failed); jobs can",
    advice="In /etc/hosts, map the host's name to its address on the cluster network, in place of 127.0.1.1",
    gather=name_of_host,
)
def own_name(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        address = cluster.networks[host].get("address")
        if not address:
            continue  # the check network reports it
        loopback = [known for known in info["name_addresses"] if ipaddress.ip_address(known).is_loopback]
        # A cluster of one machine communicates over the loopback interface.
        if loopback and not ipaddress.ip_address(address).is_loopback:
            yield Found(
                host,
                f"its own name {info['name']} resolves to {loopback[0]}",
                f"In /etc/hosts, map {info['name']} to {address}, in place of {loopback[0]}",
            )


@check(
    WARNING,
    cause="Programs that connect to hosts by name fail (unable to run bstrap_proxy); jobs do not",
    advice="Add the name of every host and its address on the cluster network to DNS, or to /etc/hosts of every host",
    full=True,
)
def names(cluster: Cluster) -> Iterator[Found]:
    for host, result in seen(cluster).items():
        unknown = sorted(name for name, addresses in result["names"].items() if not addresses)
        if unknown:
            yield Found(host, f"it does not resolve {', '.join(unknown)}")


@check(
    FAILURE,
    cause="Ranks cannot reach each other (unable to connect to server, check for firewalls; or a hang)",
    advice="Open all TCP ports between the cluster's addresses: check nft list ruleset on both hosts, and the security "
    "groups of cloud servers; with cluster_firewall: open, site.yml adds such rules to ufw or firewalld",
    full=True,
    of_connections=True,
)
def connection(cluster: Cluster) -> Iterator[Found]:
    for host, answer in cluster.answers.items():
        tasks = (answer.get(name) or {} for name in ("listener", "peers"))
        problem = next((task for task in tasks if task.get("failed")), None)
        if problem:
            yield Found(host, f"connections could not be tested: {message_of(problem)}")
    for host, result in seen(cluster).items():
        refused: dict[str, list[str]] = {}
        for name, tried in result["connections"].items():
            if tried["error"]:
                refused.setdefault(tried["error"], []).append(name)
        for error, others in refused.items():
            yield Found(host, f"it cannot connect to {', '.join(others)} on a port that listens there: {error}")


@check(
    WARNING,
    cause="Times in logs cannot be compared, and certificates appear expired",
    advice="Synchronise the clock of every host with chrony or systemd-timesyncd",
    full=True,
    limits=("clock_seconds",),
)
def clock(cluster: Cluster) -> Iterator[Found]:
    """Compare the clocks by what the first host that could connect to others read of theirs."""
    for watcher, result in seen(cluster).items():
        read = {name: tried for name, tried in result["connections"].items() if not tried["error"]}
        if not read:
            continue
        # The middle of all clocks, the watcher's own (0) among them, is right: one that is off must not blame the rest.
        offsets = sorted([0.0, *(clock["offset"] for clock in read.values())])
        middle = offsets[len(offsets) // 2] if len(offsets) > 2 else 0.0
        clocks = {watcher: {"offset": 0.0, "uncertainty": 0.0}, **read}
        for name, clock in clocks.items():
            off = clock["offset"] - middle
            if abs(off) - clock["uncertainty"] > cluster.wanted.limits["clock_seconds"]:
                side = "ahead of" if off > 0 else "behind"
                error = f" (± {clock['uncertainty']:.3f} s)" if clock["uncertainty"] else ""
                yield Found(name, f"its clock is {abs(off):.1f} s {side} the others'{error}")
        return


def seen(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    """Return what peer_info returned on each host that could test its connections."""
    results = {host: answer.get("peers") or {} for host, answer in cluster.answers.items()}
    return {host: result for host, result in results.items() if "connections" in result}
