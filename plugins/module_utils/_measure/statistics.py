# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What repeated measurements say: their median and how far they lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

# {"median", "low", "high"}, of measurements with their "count"; low and high are the smallest and the largest.
Spread = dict[str, float]


def spread(values: Sequence[float]) -> Spread | None:
    """Return the median, the smallest, the largest and the number of some measurements; None where there are none."""
    if not values:
        return None
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}


def ratio(one: Spread | None, other: Spread | None) -> Spread | None:
    """Return how many times as large as `other` `one` is: at the medians, at the least and at the most.

    None where one of them is missing, or a median is not above 0.
    """
    if not one or not other or min(other["median"], other["low"]) <= 0:
        return None
    return {
        "median": one["median"] / other["median"],
        "low": one["low"] / other["high"],
        "high": one["high"] / other["low"],
    }


def scaled(one: Spread | None, factor: float) -> Spread | None:
    """Return a spread of which each value is `factor` (above 0) times as large."""
    return one and {name: value if name == "count" else value * factor for name, value in one.items()}


def inverse(one: Spread | None, dividend: float) -> Spread | None:
    """Return the spread of `dividend` divided by each of the measurements, as seconds are of samples per second."""
    if not one or one["low"] <= 0:
        return None
    ends = {"median": dividend / one["median"], "low": dividend / one["high"], "high": dividend / one["low"]}
    return {**ends, **{name: one[name] for name in one if name == "count"}}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which `percent` (0 to 100) of the values lie, between two of them in proportion.

    Raises ValueError when there are none.
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    value = ordered[below] + (ordered[above] - ordered[below]) * (place - below)
    return min(max(value, ordered[below]), ordered[above])  # which rounding may leave


def of_steps(seconds: Sequence[float]) -> Spread | None:
    """Return the spread of the steps of one run: their low and high are the 10th and the 90th percentile."""
    if not seconds:
        return None
    return {
        "median": statistics.median(seconds),
        "low": percentile(seconds, 10),
        "high": percentile(seconds, 90),
        "mean": statistics.fmean(seconds),
        "count": len(seconds),
    }
