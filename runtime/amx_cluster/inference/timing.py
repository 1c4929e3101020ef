"""Time requests: one after the other (closed loop), or as they come at a given rate (open loop).

A *request* is a call with the number of the request, from 0; what it returns is not looked at. Times are in seconds.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Request = Callable[[int], Any]
Clock = Callable[[], float]
# How many latencies a result has at most.
KEPT = 5000
# A loop is too short to say anything with fewer requests.
FEWEST = 3
# The confidence interval is that of the means of so many parts of the loop: requests one after the other depend on each
# other, parts of a second hardly.
PARTS = 20
# Student's t for 95 %, two-sided, by degrees of freedom; beyond the last it is the normal distribution's.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
           2.120, 2.110, 2.101, 2.093)  # fmt: skip
NORMAL = 1.96
WARM_SECONDS = 0.5
# An open loop ends after so many times its length, though not all requests that came were answered: the rate is too
# high for the instance.
OVERTIME = 2


@dataclass
class Loop:
    """Measurements of a loop: the latency of each request in order, how long all took, how many came (open loop)."""

    latencies: Sequence[float]
    seconds: float
    offered: int

    @property
    def count(self) -> int:
        return len(self.latencies)

    def overhead(self) -> float:
        """Return the share of a closed loop that was not in a request: the driver's own, 0 to 1."""
        return max(0.0, 1 - math.fsum(self.latencies) / self.seconds) if self.seconds > 0 else 0.0


def warm_up(request: Request, at_least: int, seconds: float = WARM_SECONDS, clock: Clock = time.perf_counter) -> int:
    """Make so many requests, and more until the seconds are over; return how many."""
    end = clock() + seconds
    made = 0
    while made < at_least or clock() < end:
        request(made)
        made += 1
    return made


def closed_loop(request: Request, seconds: float, clock: Clock = time.perf_counter) -> Loop:
    """Make one request after the other, for so long and at least FEWEST times."""
    latencies = array("d")
    keep = latencies.append
    number = 0
    began = clock()
    end = began + seconds
    before = began
    while before < end or number < FEWEST:
        start = clock()
        request(number)
        before = clock()
        keep(before - start)
        number += 1
    return Loop(latencies, before - began, number)


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Return when requests come within so many seconds: independent of each other, on average `rate` a second."""
    chance = random.Random(seed)
    times, now = [], chance.expovariate(rate)
    while now < seconds:
        times.append(now)
        now += chance.expovariate(rate)
    return times


def open_loop(
    request: Request,
    times: Sequence[float],
    seconds: float,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], Any] = time.sleep,
) -> Loop:
    """Make requests when they come, or as soon as the earlier ones are answered: latencies count from when they came.

    times: when, from the begin, in order. Ends after OVERTIME times `seconds`; requests that are not answered by then
    are in `offered` only.
    """
    latencies = array("d")
    began = clock()
    now = began
    for number, due in enumerate(times):
        now = clock()
        if now - began > OVERTIME * seconds:
            break
        if now - began < due:
            sleep(began + due - now)
        request(number)
        now = clock()
        latencies.append(now - began - due)
    return Loop(latencies, max(now - began, seconds), len(times))


def throughput(loop: Loop, batch_size: int) -> dict[str, float | None]:
    """Return {value, low, high} of a closed loop in samples a second: low and high of the 95 % confidence interval.

    From the means of PARTS parts of equal length; None for both where there were too few requests.
    """
    value = loop.count * batch_size / loop.seconds
    parts = min(PARTS, loop.count)
    if parts < FEWEST:
        return {"value": value, "low": None, "high": None}
    size = loop.count // parts
    means = [statistics.fmean(loop.latencies[part * size : (part + 1) * size]) for part in range(parts)]
    student = STUDENT[parts - 2] if parts - 2 < len(STUDENT) else NORMAL
    half = student * statistics.stdev(means) / math.sqrt(parts) / statistics.fmean(means)
    # The interval is that of the mean latency, whose inverse is the throughput.
    return {"value": value, "low": value / (1 + half), "high": value / (1 - half) if half < 1 else None}


def microseconds(latencies: Sequence[float], most: int = KEPT) -> list[float]:
    """Return latencies in microseconds, sorted, at most so many: evenly thinned, the least and the largest kept."""
    ordered = [round(latency * 1e6, 1) for latency in sorted(latencies)]
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]
