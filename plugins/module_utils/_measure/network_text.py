# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text about a measured network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.network import host_figures, speed
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.tables import data_size
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, wrapped


def render(network: Mapping[str, Any], left_out: Sequence[str] = ()) -> str:
    """Return the report of a network as network.json has it: findings first, then hosts, collectives and prediction.

    left_out: what was not measured, and why.
    """
    ranks = max((row["ranks"] for row in network["collectives"]), default=0)
    over = f", over {network['provider']}" if len(network["hosts"]) > 1 else ""
    parts = [
        f"Network of {count(len(network['hosts']), 'host')}, {count(ranks, 'rank')}{over}",
        *_findings(network),
        *_hosts(network),
        *_collectives(network["collectives"]),
    ]
    if network["prediction"]:
        parts += ["", *wrapped("Prediction: ", network["prediction"]["text"])]
    if left_out:
        parts += ["", "Left out:", *[line for text in left_out for line in wrapped("  ", text)]]
    return "\n".join(parts)


def _findings(network: Mapping[str, Any]) -> list[str]:
    if network["findings"]:
        return ["", *[line for finding in network["findings"] for line in wrapped("! ", finding["text"])]]
    if len(network["hosts"]) < 2:
        return ["", "There is one host: no pair to measure. The collectives are those between its ranks."]
    compared = len(network["hosts"]) > 2
    known = any(host["link_mbit"] for host in network["hosts"])
    labels = [
        *(["slow beside the median host"] if compared else []),
        *(["below the speed of its link"] if known else []),
    ]
    if not labels:
        return ["", "Two hosts without a known link speed: there is nothing to compare their pair with."]
    return ["", f"No host is {' or '.join(labels)}."]


def _hosts(network: Mapping[str, Any]) -> list[str]:
    if len(network["hosts"]) < 2:
        return []
    rows = [["host", "interface", "link", "latency", "bandwidth"]]
    for host in network["hosts"]:
        latency, bandwidth = host_figures(host["host"], network["pairs"])
        rows.append(
            [
                host["host"],
                host["interface"] or "",
                speed(host["link_mbit"]) if host["link_mbit"] else "unknown",
                "-" if latency is None else f"{latency:.1f} µs",
                "-" if bandwidth is None else f"{bandwidth:.1f} MB/s",
            ]
        )
    return ["", *columns(rows), "Latency and bandwidth: those of the host's best pair."]


def _collectives(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    tools = list(dict.fromkeys((row["tool"], row["backend"]) for row in rows))
    names = [f"torch, {backend}" if tool == "torch" else "IMB-MPI1" for tool, backend in tools]
    times_by_tool = {(row["operation"], row["bytes"], row["tool"], row["backend"]): row["microseconds"] for row in rows}
    table = [["collective", "bytes", *[f"{name} (ms)" for name in names]]]
    order = list(dict.fromkeys(row["operation"] for row in rows))
    for operation, number in sorted({key[:2] for key in times_by_tool}, key=lambda key: (order.index(key[0]), key[1])):
        times = [times_by_tool.get((operation, number, *tool)) for tool in tools]
        table.append([operation, data_size(number), *["-" if time is None else _ms(time) for time in times]])
    return ["", *columns(table)]


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.{3 if microseconds >= 100 else 4}f}"
