# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes of poor scaling, from the parts of a step's time on several numbers of hosts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS
from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import LEVEL, WORTH, outliers
from ansible_collections.amx.cluster.plugins.module_utils._text import names

# A share of the step below which communication, or input, does not hold a job back to speak of.
SHARE = 0.1
# A share of the step by which a rank must compute longer than the others to hold them up.
HELD_UP = 0.05
# Bytes of a collective below which its time is that of the message, not of its bytes. A bucket of
# DistributedDataParallel has 25 MiB unless it is set otherwise, and the first one 1 MiB.
SMALL = 1 << 20
# Calls of a step below which fewer of them gain nothing.
FEW = 2
# The network's share of what its nominal speed would take, above which the bytes explain the time.
LOADED = 0.5


def shares(measured: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the share of each part in a step, the mean over the ranks; None where the steps were not split."""
    ranks = [rank for rank in measured.get("ranks") or [] if rank.get("step_seconds") and _is_split(rank)]
    if not ranks:
        return None
    return {part: statistics.fmean((rank[part] or 0.0) / rank["step_seconds"] for rank in ranks) for part in PARTS}


def mean_shares(runs: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return the share of each part, the median over what was measured in runs; those without a split are left out."""
    splits = [split for measured in runs if (split := shares(measured))]
    return {part: statistics.median(split[part] for split in splits) for part in PARTS} if splits else None


def slow_hosts(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return which hosts hold up the others: {hosts: {host: times as long}, level, detectable}, the slowest first.

    runs: what was measured in each run on these hosts. A host is as slow as its rank that computes longest: the others
    wait for it in the collectives. level: the share of such comparisons of equal hosts that may name one. detectable:
    how much longer than the others a rank must compute to be named almost certainly (repeated.POWER). None where it
    is unknown: a single host, a single run, or too few steps.
    """
    each = [{str(rank["rank"]): rank for rank in run.get("ranks") or [] if rank.get("compute_blocks")} for run in runs]
    ranks = [rank for rank in each[0] if all(rank in run for run in each)] if each else []
    of_host = {rank: each[0][rank]["host"] for rank in ranks}
    outcome = outliers({rank: [run[rank]["compute_blocks"] for run in each] for rank in ranks}, of_host)
    if outcome is None:
        return None
    step = statistics.fmean(run[rank]["step_seconds"] for run in each for rank in ranks)
    hosts: dict[str, float] = {}
    for rank, times in outcome.slow.items():
        compute = statistics.fmean(run[rank]["compute"] for run in each)
        if compute * (1 - 1 / times) >= HELD_UP * step:
            hosts[of_host[rank]] = max(times, hosts.get(of_host[rank], 0.0))
    slowest = dict(sorted(hosts.items(), key=lambda item: -item[1]))
    return {"hosts": slowest, "level": LEVEL, "detectable": outcome.detectable}


def not_detectable(slow: Mapping[str, Any] | None, steps: int) -> str:
    """Return why a sweep cannot detect slow hosts, and what to do; an empty string where it can.

    slow: what slow_hosts returned, of runs with so many steps.
    """
    if slow is None:
        return (
            "Not enough runs or steps to tell whether a host is slow: set at least repeats: 2, with steps that are "
            "measured."
        )
    if slow["hosts"] or slow["detectable"] <= WORTH:
        return ""
    needed = steps * (math.log1p(slow["detectable"]) / math.log1p(WORTH)) ** 2
    return (
        f"Not enough steps to tell whether a host is slow: one that computes less than {slow['detectable']:.0%} longer "
        f"than the others may go unnoticed. About -e steps={10 * math.ceil(needed / 10)}, or more repeats, would show "
        f"one that computes {WORTH:.0%} longer."
    )


def limits(
    runs: Sequence[Mapping[str, Any]], efficiency: float | None = None, link_mbit: float | None = None
) -> dict[str, Any]:
    """Return {cause, host, text, slow_hosts, undecided}: what holds back the runs with the most hosts, in one sentence.

    runs: `measured` of the results.json of each, the most typical one first. efficiency: its speed-up divided by its
    hosts. link_mbit: the nominal speed of the network in Mbit/s, None where it is not known. Causes: slow_host, input,
    latency, bandwidth, none, unknown. slow_hosts: as slow_hosts returns it. undecided: why it is not known whether a
    host is slow, empty where it is.
    """
    slow = slow_hosts(runs)
    known = bool(runs and shares(runs[0]))
    return {
        **_limits(runs[0] if runs else None, slow, efficiency, link_mbit),
        "slow_hosts": slow,
        "undecided": not_detectable(slow, runs[0].get("steps") or 0) if known else "",
    }


def _limits(
    measured: Mapping[str, Any] | None,
    slow: Mapping[str, Any] | None,
    efficiency: float | None,
    link_mbit: float | None,
) -> dict[str, Any]:
    split = shares(measured) if measured else None
    if not measured or not split:
        return _cause("unknown", "The steps were not split into compute, communication and input.")
    if slow and slow["hosts"]:
        level = slow["level"]
        host, times = next(iter(slow["hosts"].items()))
        text = (
            f"{names(list(slow['hosts']))} {'is' if len(slow['hosts']) == 1 else 'are'} slow: the slowest rank "
            f"computes {times:.2f} x as long in a step as the median rank of the other hosts, and they wait for it. "
            f"Of sweeps on equal hosts, fewer than {level:.0%} name one."
        )
        return _cause("slow_host", text, host)
    communication, feeding = split["communication"], split["input"]
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
    """Return whether the bytes or the number of messages take the time of the collectives, as a sentence."""
    head = f"communication takes {share:.0%} of a step"
    collectives = measured.get("collectives") or {}
    calls, size = collectives.get("calls") or 0, collectives.get("bytes") or 0
    seconds = statistics.fmean(rank["communication"] or 0.0 for rank in measured["ranks"])
    if not calls or not size or seconds <= 0:
        return _cause("unknown", f"{head[0].upper()}{head[1:]}, and its calls and bytes were not counted.")
    speed = size / seconds / 1e6
    each = size / calls
    link = f" of a link of {link_mbit:.0f} Mbit/s" if link_mbit else ""
    figures = (
        f"{_bytes(size)} in {calls:.3g} calls per step take {1000 * seconds:.0f} ms ({_bytes(each)} per call, "
        f"{speed:.0f} MB/s per rank{link})"
    )
    loaded = link_mbit is not None and 8 * speed >= LOADED * link_mbit
    if each < SMALL and not loaded:
        # One call has all gradients already.
        fewer = "in fewer, larger buckets (ddp_bucket_cap_mb), or " if calls >= FEW else ""
        text = f"Latency: {head}: {figures}; exchange gradients {fewer}less often (gradient_accumulation_steps)."
        return _cause("latency", text)
    text = (
        f"Bandwidth: {head}: {figures}; exchange fewer bytes (gradient_compression, "
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
