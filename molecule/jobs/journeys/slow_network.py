"""The network of three hosts is measured: of like hosts, and with one slowed by tc.

All hosts are limited to 1 Gbit/s: between containers, bandwidth is otherwise that of cores, which the hosts share.
"""

from __future__ import annotations

import json
from typing import Any

from support.cluster import CONTAINERS, EPHEMERAL, Play, addresses, on
from support.journeys import check

SLOW = "node2"
LIMIT = "tc qdisc replace dev {device} root tbf rate {rate} burst 512kb latency 100ms"
SETTINGS = ("minutes=0.2", "largest=4MB", "parameters=23M")


def measure(name: str) -> tuple[dict[str, Any], str]:
    """Measure the network between all hosts; return network.json and what the playbook showed."""
    to = EPHEMERAL / name / "network.json"
    words = [word for setting in (*SETTINGS, f"network_to={to}") for word in ("-e", setting)]
    output = Play("network", *words).succeed()
    found: dict[str, Any] = json.loads(to.read_text(encoding="utf-8"))
    check("changed=0" in output and "changed=1" not in output, f"a measurement counts as a change:\n{output[-2000:]}")
    return found, output


def interface(host: str) -> str:
    """Return the interface of a host that carries the cluster network."""
    return on(host, f"ip -o addr show to {addresses()[host]}", fails=False).split()[1]


def speeds(network: dict[str, Any]) -> str:
    pairs = [f"{'-'.join(pair['hosts'])} {pair['bandwidth_mbyte_s']:.0f} MB/s" for pair in network["pairs"]]
    return ", ".join(pairs)


def limit(host: str, rate: str) -> None:
    """Limit what a host sends on the cluster network; an empty rate ends it."""
    device = interface(host)
    command = LIMIT.format(device=device, rate=rate) if rate else f"tc qdisc del dev {device} root"
    on(host, command, user="root", fails=not rate)


def limited(name: str, slow: str = "") -> tuple[dict[str, Any], str]:
    """Measure the network between hosts of 1 Gbit/s, and one of 200 Mbit/s."""
    try:
        for host in CONTAINERS:
            limit(host, "200mbit" if host == slow else "1gbit")
        return measure(name)
    finally:
        for host in CONTAINERS:
            limit(host, "")


def nobody_is_named_where_hosts_are_alike() -> list[str]:
    """Measure an even network."""
    even, output = limited("even")
    check(even["findings"] == [], f"named in an even network ({speeds(even)}): {even['findings']}")
    check("No host is slow" in output, output[-4000:])
    return [f"limited to 1 Gbit/s: {speeds(even)}; nobody is named"]


def a_slow_host_is_named_and_no_other() -> list[str]:
    """Measure a network with a slow host."""
    slowed, output = limited("slowed", SLOW)
    named = [(finding["kind"], finding["host"]) for finding in slowed["findings"]]
    check(named == [("slow_host", SLOW)], f"named ({speeds(slowed)}): {slowed['findings']}")
    check(f"tc qdisc show dev {interface(SLOW)}" in " ".join(output.split()), f"no advice:\n{output[-4000:]}")
    check_complete(slowed)
    return [f"{SLOW} slowed to 200 Mbit/s, the others limited to 1 Gbit/s: {speeds(slowed)}; it is named and no other"]


def check_complete(found: dict[str, Any]) -> None:
    """Check that all was measured."""
    check(len(found["pairs"]) == 3 and all(pair["state"] == "measured" for pair in found["pairs"]), str(found["pairs"]))
    # Those of containers have no hardware, and a speed that means nothing.
    check([host["link_mbit"] for host in found["hosts"]] == [None] * 3, str(found["hosts"]))
    tools = {(row["tool"], row["operation"]) for row in found["collectives"]}
    # IMB-MPI1 ends by its time: its ranks poll, and hosts that share a core wait for each other.
    measured = [sum(tool == name for tool, _operation in tools) for name in ("torch", "imb")]
    check(measured[0] == 6 and measured[1] > 0, f"collectives measured: {sorted(tools)}")
    check(found["prediction"]["bytes"] == 92_000_000, str(found["prediction"]))
