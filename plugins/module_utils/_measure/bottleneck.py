# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds a job back on more hosts, from where the time of its steps goes at several numbers of hosts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._text import names

PARTS = ("compute", "communication", "input", "other")
# A share of the step below which communication, or input, does not hold a job back to speak of.
SHARE = 0.1
# How much longer than on the fastest host a rank computes on a host that holds up the others.
SLOW = 1.2
# Bytes of a collective below which its time is that of the message, not of its bytes. A bucket of
# DistributedDataParallel has 25 MiB unless it is set otherwise, and the first one 1 MiB.
SMALL = 1 << 20
# The network's share of what its nominal speed would take, above which the bytes explain the time.
LOADED = 0.5


def shares(measured: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the share of each part in a step, the mean over the ranks; None where the steps were not split."""
    ranks = [rank for rank in measured.get("ranks") or [] if rank.get("step_seconds") and _is_split(rank)]
    if not ranks:
        return None
    return {part: statistics.fmean((rank[part] or 0.0) / rank["step_seconds"] for rank in ranks) for part in PARTS}


def mean_shares(runs: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return the share of each part, the median over the records of runs; those without a split are left out."""
    found = [split for run in runs if run.get("measured") and (split := shares(run["measured"]))]
    return {part: statistics.median(split[part] for split in found) for part in PARTS} if found else None


def slow_hosts(measured: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """Return the hosts that hold up the others, the slowest first, and the median of the others, in seconds of a step.

    A host is as slow as its rank that computes longest. The others wait for it in the collectives: their
    communication is its computing. Without a slow host, or with a single host, the first part is empty.
    """
    hosts: dict[str, float] = {}
    for rank in measured.get("ranks") or []:
        if rank.get("compute"):
            hosts[rank["host"]] = max(rank["compute"], hosts.get(rank["host"], 0.0))
    if not hosts:
        return {}, 0.0
    fastest = min(hosts.values())
    step = statistics.fmean(rank["step_seconds"] for rank in measured["ranks"] if rank.get("step_seconds"))
    # What makes no difference to speak of in the whole step holds up nobody.
    slow = [host for host, seconds in hosts.items() if seconds > max(SLOW * fastest, fastest + SHARE * step)]
    middle = statistics.median(seconds for host, seconds in hosts.items() if host not in slow)
    return {host: hosts[host] for host in sorted(slow, key=lambda host: -hosts[host])}, middle


def limits(
    measured: Mapping[str, Any] | None, efficiency: float | None = None, link_mbit: float | None = None
) -> dict[str, Any]:
    """Return {cause, host, text}: what holds back the run with the most hosts, in one sentence with its figures.

    measured: of results.json. efficiency: its speed-up divided by its hosts. link_mbit: the nominal speed of the
    network in Mbit/s, None where it is not known. Causes: slow_host, input, latency, bandwidth, none, unknown.
    """
    split = shares(measured) if measured else None
    if not measured or not split:
        return _cause("unknown", "The steps were not split into compute, communication and input.")
    slow, middle = slow_hosts(measured)
    communication, feeding = split["communication"], split["input"]
    if slow:
        host = next(iter(slow))
        text = (
            f"{names(list(slow))} {'is' if len(slow) == 1 else 'are'} slow: the slowest rank computes "
            f"{1000 * slow[host]:.0f} ms in a step, those of the other hosts {1000 * middle:.0f} ms, and they "
            "wait for it."
        )
        return _cause("slow_host", text, host)
    if feeding >= max(SHARE, communication):
        text = (
            f"Input: ranks wait {feeding:.0%} of a step for their next batch; give the data loader workers, or prepare "
            "the data before."
        )
        return _cause("input", text)
    if communication < SHARE:
        reached = f" (efficiency {efficiency:.0%})" if efficiency is not None else ""
        return _cause("none", f"Nothing to speak of{reached}: {split['compute']:.0%} of a step is compute.")
    return _of_communication(measured, communication, link_mbit)


def _of_communication(measured: Mapping[str, Any], share: float, link_mbit: float | None) -> dict[str, Any]:
    """Say whether the bytes or the number of messages take the time of the collectives."""
    head = f"communication takes {share:.0%} of a step"
    collectives = measured.get("collectives") or {}
    calls, size = collectives.get("calls") or 0, collectives.get("bytes") or 0
    seconds = statistics.fmean(rank["communication"] or 0.0 for rank in measured["ranks"])
    if not calls or not size or seconds <= 0:
        return _cause("unknown", f"{head[0].upper()}{head[1:]}, and its calls and bytes were not counted.")
    speed = size / seconds / 1e6
    each = size / calls
    figures = f"{calls:.0f} calls with {_bytes(size)} take {1000 * seconds:.0f} ms, {speed:.0f} MB/s and rank"
    loaded = link_mbit is not None and 8 * speed >= LOADED * link_mbit
    if each < SMALL and not loaded:
        text = (
            f"Latency: {head}: {figures}, only {_bytes(each)} a call; exchange gradients in fewer, larger buckets "
            "(ddp_bucket_cap_mb), or less often (gradient_accumulation_steps)."
        )
        return _cause("latency", text)
    link = f" of a link of {link_mbit:.0f} Mbit/s" if link_mbit else ""
    text = (
        f"Bandwidth: {head}: {figures}{link}; exchange fewer bytes (gradient_compression, "
        "gradient_accumulation_steps, larger batches), or use a faster network."
    )
    return _cause("bandwidth", text)


def _is_split(rank: Mapping[str, Any]) -> bool:
    return rank.get("compute") is not None and rank.get("communication") is not None


def _cause(cause: str, text: str, host: str | None = None) -> dict[str, Any]:
    return {"cause": cause, "host": host, "text": text}


def _bytes(number: float) -> str:
    """Return a number of bytes as 12 KB, 3.4 MB or 1.2 GB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
