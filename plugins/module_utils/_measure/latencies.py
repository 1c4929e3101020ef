# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests one after the other: their latencies as a sample, its percentiles, and the throughput of several instances.

A sample is {values: latencies in ascending order, thinned evenly, count: of the requests that they stand for,
total: the sum of all their latencies, where it is known}. Values may be in any unit.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

# So many values keep every whole percentile, and tenths of one, where one sample is thinned.
KEPT = 1001
PERCENTILES = (50, 90, 99)


def merged(samples: Sequence[Mapping[str, Any]], most: int = KEPT) -> dict[str, Any]:
    """Return the sample of all requests of these, with at most so many values; each weighs as its requests do."""
    samples = [sample for sample in samples if sample["values"]]
    weighted = sorted(
        (value, sample["count"] / len(sample["values"])) for sample in samples for value in sample["values"]
    )
    count = sum(sample["count"] for sample in samples)
    totals = [sample["total"] for sample in samples if sample.get("total") is not None]
    known = {"total": math.fsum(totals)} if totals and len(totals) == len(samples) else {}
    if len(weighted) <= most and len({weight for _value, weight in weighted}) <= 1:
        return {"values": [value for value, _weight in weighted], "count": count, **known}
    ends = list(itertools.accumulate(weight for _value, weight in weighted))
    places = [ends[-1] * place / (most - 1) for place in range(most)]
    kept = [weighted[min(bisect.bisect_left(ends, place), len(ends) - 1)][0] for place in places]
    return {"values": kept, "count": count, **known}


def summary(sample: Mapping[str, Any], scale: float = 1.0) -> dict[str, float] | None:
    """Return the mean, p50, p90 and p99 of a sample and its count, values times `scale`; None for an empty one."""
    values = [value * scale for value in sample["values"]]
    if not values:
        return None
    # Of one value there are no quantiles before Python 3.13.
    cuts = statistics.quantiles(values if len(values) > 1 else values * 2, n=100, method="inclusive")
    percentiles = {f"p{percent}": cuts[percent - 1] for percent in PERCENTILES}
    total = sample.get("total")
    mean = statistics.fmean(values) if total is None else scale * total / sample["count"]
    return {"mean": mean, **percentiles, "count": sample["count"]}


def together(parts: Sequence[Mapping[str, float | None]]) -> dict[str, float | None] | None:
    """Return the throughput {value, low, high} of instances that run side by side, from that of each.

    They are independent: the squares of what their confidence intervals extend to each side add up. low and high are
    None where a part has none. None without any part.
    """
    if not parts:
        return None
    values = [float(part["value"] or 0.0) for part in parts]
    value = math.fsum(values)

    def end(name: str, sign: int) -> float | None:
        ends = [part[name] for part in parts]
        if any(each is None for each in ends):
            return None
        return value + sign * math.sqrt(math.fsum((float(each or 0.0) - own) ** 2 for each, own in zip(ends, values)))

    low = end("low", -1)
    return {"value": value, "low": low if low is None else max(0.0, low), "high": end("high", 1)}
