# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of repeated measurements: median, spread, and conclusions with their level."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# {"median", "low", "high"}, of measurements with their "count"; low and high are the smallest and the largest.
Spread = dict[str, float]

# Of sweeps on equal hosts, fewer than this share name one: the family-wise error over all ranks that are compared. It
# is tested at half of that, since logarithms of times are normal only by approximation.
LEVEL = 0.01
# The share of sweeps that name a rank which is slower by what is called detectable.
POWER = 0.95
# The least excess over the others that is named, and the one that a sweep should be able to detect.
LEAST, WORTH = 0.1, 0.2
# The share of comparisons of equals that may call one of them faster.
FASTER = 0.05


def spread(values: Sequence[float]) -> Spread | None:
    """Return the median, the smallest, the largest and the number of some measurements; None where there are none."""
    if not values:
        return None
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}


def ratio(numerator: Spread | None, other: Spread | None) -> Spread | None:
    """Return how many times as large as `other` `numerator` is: at the medians, at the least and at the most.

    None where one of them is missing, or a median is not above 0.
    """
    if not numerator or not other or min(other["median"], other["low"]) <= 0:
        return None
    return {
        "median": numerator["median"] / other["median"],
        "low": numerator["low"] / other["high"],
        "high": numerator["high"] / other["low"],
    }


def scaled(values: Spread | None, factor: float) -> Spread | None:
    """Return a ratio of which each value is `factor` (above 0) times as large."""
    return values and {name: value * factor for name, value in values.items()}


@dataclass(frozen=True)
class Outliers:
    """Ranks significantly slower than ranks in other groups: {name: times as long}, and the least that is detectable.

    detectable: the excess over the others that would be named with probability POWER.
    """

    slow: dict[str, float]
    detectable: float


def outliers(runs: Mapping[str, Sequence[Sequence[float]]], groups: Mapping[str, str]) -> Outliers | None:
    """Return whose times are longer than those of other groups, at LEVEL over all of them; None where that is unknown.

    runs: {name: its runs, each with the mean times of its blocks of consecutive steps}. groups: {name: group}, ranks of
    a host, say. At least two groups, runs and blocks are needed.

    Logarithms are compared, so that a slow one is spread as the others are. Neither steps nor runs need be independent
    of each other: blocks may be alike in all runs (the same data), and a run may be slow as a whole. Both are parts of
    the variance of a mean (two-way analysis of variance, blocks x runs, pooled over all).
    """
    count = min((len(each) for each in runs.values()), default=0)
    length = min((len(blocks) for each in runs.values() for blocks in each), default=0)
    if count < 2 or length < 2 or len({groups[name] for name in runs}) < 2:
        return None
    times = {name: [blocks[:length] for blocks in each[:count]] for name, each in runs.items()}
    if any(value <= 0 for each in times.values() for blocks in each for value in blocks):
        return None
    squares = {
        name: _Squares([[math.log(value) for value in blocks] for blocks in each]) for name, each in times.items()
    }
    variance, freedom = _pooled(list(squares.values()), count, length)
    quantile = student_t(1 - LEVEL / 2 / len(squares), freedom)
    number = len({groups[name] for name in runs}) - 1
    # Of the median of so many other groups' means: the ranks of a group may be slow together.
    widening = 1 + (1 / number if number < 3 else math.pi / 2 / number)
    error = math.sqrt(variance * widening)
    slow = {}
    for name, own in squares.items():
        excess = own.mean - statistics.median(
            other.mean for key, other in squares.items() if groups[key] != groups[name]
        )
        own_error = math.sqrt(own.blocks / (length * (length - 1) * count) * widening)
        if excess > max(quantile * max(error, own_error), math.log1p(LEAST)):
            slow[name] = math.exp(excess)
    certain = student_t(POWER, freedom) * error
    return Outliers(slow, math.expm1(certain + max(quantile * error, math.log1p(LEAST))))


class _Squares:
    """Sums of squares of logarithms, runs of blocks: those between blocks, between runs, and the rest."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        runs = [statistics.fmean(blocks) for blocks in values]
        blocks = [statistics.fmean(column) for column in zip(*values)]
        self.mean = statistics.fmean(runs)
        self.blocks = len(runs) * sum((each - self.mean) ** 2 for each in blocks)
        self.runs = len(blocks) * sum((each - self.mean) ** 2 for each in runs)
        total = sum((value - self.mean) ** 2 for row in values for value in row)
        self.rest = max(0.0, total - self.blocks - self.runs)


def _pooled(squares: Sequence[_Squares], runs: int, blocks: int) -> tuple[float, float]:
    """Return the variance of one's mean and its degrees of freedom (Satterthwaite's)."""
    many = len(squares)
    terms = [
        (sum(each.blocks for each in squares), many * (blocks - 1)),
        (sum(each.runs for each in squares), many * (runs - 1)),
        (sum(each.rest for each in squares), many * (blocks - 1) * (runs - 1)),
    ]
    between_blocks, between_runs, rest = (total / freedom for total, freedom in terms)
    variance, freedom = between_blocks + between_runs - rest, float(terms[2][1])
    if variance <= rest:
        variance = rest
    else:
        freedom = variance**2 / sum((total / own) ** 2 / own for total, own in terms)
    return variance / (runs * blocks), freedom


@dataclass(frozen=True)
class Paired:
    """Ratio of the second to the first of each pair: the mean, and a confidence interval."""

    ratio: float
    low: float
    high: float


def paired(pairs: Sequence[tuple[float, float]]) -> Paired | None:
    """Return what pairs of positive measurements say, by Student's t of their ratios' logarithms; None below two.

    low: the true ratio is below it in FASTER of all cases, and above `high` in as many.
    """
    if len(pairs) < 2:
        return None
    logarithms = [math.log(other / first) for first, other in pairs]
    low, high = interval(logarithms)
    return Paired(math.exp(statistics.fmean(logarithms)), math.exp(low), math.exp(high))


def interval(values: Sequence[float], beyond: float = FASTER) -> tuple[float, float]:
    """Return the confidence interval of the mean of at least two values, with so much of the chance on each side."""
    middle = statistics.fmean(values)
    half = student_t(1 - beyond, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return middle - half, middle + half


@functools.lru_cache(maxsize=1024)
def student_t(share: float, freedom: float) -> float:
    """Return the value below which so large a share (0.5 to 1) of Student's t distribution lies."""
    low, high = 0.0, 1.0
    while _below(high, freedom) < share:
        low, high = high, 2 * high
    for _halving in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < share else (low, middle)
    return low


def _below(value: float, freedom: float) -> float:
    """Return the share of Student's t distribution below a value of at least 0."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def _incomplete_beta(first: float, other: float, at: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if at <= 0 or at >= 1:
        return float(at >= 1)
    if at > (first + 1) / (first + other + 2):
        return 1 - _incomplete_beta(other, first, 1 - at)
    logarithm = math.lgamma(first + other) - math.lgamma(first) - math.lgamma(other)
    logarithm += first * math.log(at) + other * math.log1p(-at)
    upper, lower = 1.0, 1 / (1 - (first + other) * at / (first + 1))
    fraction = lower
    for term in range(1, 500):
        order = first + 2 * term
        for part in (
            term * (other - term) * at / ((order - 1) * order),
            -(first + term) * (first + other + term) * at / (order * (order + 1)),
        ):
            lower = 1 / (1 + part * lower)
            upper = 1 + part / upper
            fraction *= lower * upper
        if abs(lower * upper - 1) < 1e-12:
            break
    return math.exp(logarithm) * fraction / first
