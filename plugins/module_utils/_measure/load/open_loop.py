# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An open loop of requests: they are sent at times that were set before, whether or not earlier ones were answered.

A closed loop, whose clients wait for their answers, sends nothing while the server stalls, and so does not measure the
requests that would have waited (coordinated omission). Here, a latency begins when the request was to be sent.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils._measure.load.client import NO_ANSWER, Answer

MOST = 800
"""Requests without an answer at a time, fewer than the 1024 files that a process may usually open."""
SEED = 1
"""Of random arrivals: the same in each run, so that two runs differ by the server alone."""


@dataclass(frozen=True)
class Request:
    """A request that was sent, with times of time.monotonic(). due: when it was to be sent."""

    due: float
    sent: float
    answer: Answer


@dataclass(frozen=True)
class Loop:
    """Requests of one rate, in their order. overloaded: whether it was ended as MOST had no answer."""

    began: float
    requests: Sequence[Request]
    overloaded: bool


def arrivals(rate: float, seconds: float, even: bool) -> list[float]:
    """Return when requests arrive, in seconds: a Poisson process with the expected number of requests, or evenly."""
    count = max(1, round(rate * seconds))
    if even:
        return [number / rate for number in range(count)]
    chance = random.Random(SEED)
    return sorted(chance.uniform(0, seconds) for _number in range(count))


def run(
    times: Sequence[float],
    send: Callable[[int], Answer],
    patience: float,
    give_up: Callable[[], None],
    most: int = MOST,
) -> Loop:
    """Send requests at these times, in seconds from now, and return them once all are answered.

    send: sends the request of this number; called in threads. patience: seconds that the last answers have; after that,
    and with more than `most` requests without an answer, give_up ends all that are under way.
    """
    due: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    done: dict[int, Request] = {}

    def work() -> None:
        while (entry := due.get()) is not None:
            sent = time.monotonic()
            done[entry[0]] = Request(entry[1], sent, send(entry[0]))

    workers: list[threading.Thread] = []
    planned: list[float] = []
    overloaded = False
    began = time.monotonic()
    for number, after in enumerate(times):
        time.sleep(max(0.0, began + after - time.monotonic()))
        under_way = number - len(done)
        if under_way >= most:
            overloaded = True
            break
        if under_way >= len(workers):
            workers.append(threading.Thread(target=work, daemon=True))
            workers[-1].start()
        planned.append(began + after)
        due.put((number, began + after))
    end = time.monotonic() + (0.0 if overloaded else patience)
    _wait(lambda: len(done) == len(planned), end)
    if len(done) < len(planned):
        give_up()
        _wait(lambda: len(done) == len(planned), time.monotonic() + 2.0)
    for _worker in workers:
        due.put(None)
    now = time.monotonic()
    missing = Answer(NO_ANSWER, now)
    requests = [done.get(number) or Request(at, at, missing) for number, at in enumerate(planned)]
    return Loop(began, requests, overloaded)


def _wait(is_so: Callable[[], bool], end: float) -> None:
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
