# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps of a load, each with requests at one rate: what they measure, which rate comes next, and what is held."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.load import open_loop
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.client import OK, Answer, Client
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.served import Served, instances
from ansible_collections.amx.cluster.plugins.module_utils._text import words

MEASURED, OVERLOADED, LATE = "measured", "overloaded", "not measured"
SECONDS, LEAST = 20.0, 20
"""Of a step, and requests that it has at least, unless its seconds are set."""
SHARE = 0.99
"""Of the requests that have to be answered within the limit."""
LATE_OF_P99, LATE_OF_LIMIT = 0.1, 0.01
"""Shares of p99 and of the limit up to which the generator may send requests late."""
PATIENCE = 30.0
"""Seconds for the last answers of a step, ten times the limit where that is more; and for a busy server before one."""
BUSY, PAUSE = ("429", "503"), 0.5
"""Codes of a server that may answer a little later, as after a step that was too much, and seconds until then."""
FIRST, FACTOR, NEAR, DOWN = 0.25, 2.0, 1.2, 8.0
"""The first rate as a share of what one request after the other gives; the factor of the next one; from which factor on
the highest rate that is held and the lowest that is not are near enough; and how far down the search goes."""


@dataclass(frozen=True)
class Wanted:
    """Options of the command line. rates: none: searched. seconds: of a step, 0: by default. limit: seconds."""

    rates: Sequence[float]
    seconds: float
    limit: float
    even: bool
    tokens: int

    def duration(self, rate: float) -> float:
        """Return the seconds of a step."""
        return self.seconds or max(SECONDS, LEAST / rate)


def read(options: Mapping[str, Any]) -> Wanted:
    """Return what the command line sets. Raises ValueError."""
    return Wanted(
        [_number("rates", rate) for rate in words(options["rates"])],
        _number("duration", options["duration"]) if options["duration"] else 0.0,
        _number("p99_ms", options["p99_ms"] or 1000) / 1000,
        bool(options["even"]),
        round(_number("tokens", options["tokens"] or 64, least=1)),
    )


def _number(name: str, given: object, least: float = 0.0) -> float:
    try:
        value = float(str(given))
    except ValueError:
        value = math.nan
    if not (value >= least and 0 < value < math.inf):
        raise ValueError(f"{name}: {given} is not a number above 0")
    return value


def measure(client: Client, served: Served, bodies: Sequence[bytes], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield the steps of a load. Raises ValueError where a request before a step is not answered."""

    def send(number: int) -> Answer:
        return client.post(number, served.path, bodies[number % len(bodies)])

    def warm() -> float:
        end = time.monotonic() + PATIENCE
        while True:
            due = open_loop.run([0.0], send, client.seconds, client.give_up).requests[0]
            if due.answer.code not in BUSY or time.monotonic() > end:
                break
            time.sleep(PAUSE)
        if due.answer.code != OK:
            raise ValueError(f"a request to {served.path} of {served.model} is not answered: {_problem(due.answer)}")
        return due.answer.ended - due.due

    alone = min(warm() for _request in range(3))
    search: Generator[float, Any, None] = (rate for rate in wanted.rates)
    if not wanted.rates:
        search = searched(rounded(FIRST / alone))
    rate = next(search)
    while True:
        warm()  # also waits until the requests of an earlier step that were given up are over
        client.stopped = False
        before = instances(client, served)
        seconds = wanted.duration(rate)
        times = open_loop.arrivals(rate, seconds, wanted.even)
        loop = open_loop.run(times, send, max(PATIENCE, 10 * wanted.limit), client.give_up)
        client.stopped = False
        step = {**summary(rate, seconds, loop, wanted.limit), "instances": [before, instances(client, served)]}
        yield {**step, "remark": remark(step)}
        try:
            rate = search.send(step)
        except StopIteration:
            return


def _problem(answer: Answer) -> str:
    return ": ".join(filter(None, [answer.code, answer.text[:300]]))


def searched(first: float) -> Generator[float, Mapping[str, Any], None]:
    """Yield rates up to the highest one that is held; each step is sent back.

    It ends where that is not known, as the generator was late twice: what was held in spite of that is.
    """
    low, high, rate = 0.0, math.inf, first
    while True:
        step = yield rate
        if step["state"] == LATE and not step["held"]:
            step = yield rate
        if step["state"] == LATE and not step["held"]:
            return
        low, high = (rate, high) if step["held"] else (low, rate)
        if high == math.inf:
            rate = rounded(FACTOR * low)
        elif not low:
            rate = rounded(high / FACTOR)
        else:
            rate = rounded(math.sqrt(low * high))
        if rate in (low, high) or high <= NEAR * low or high <= first / DOWN:
            return


def rounded(rate: float) -> float:
    """Return a rate with two digits that count."""
    return float(f"{rate:.2g}")


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean, percentiles and maximum of values; None for none. A percentile is one of them (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    percentiles = {f"p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in (50, 90, 99)}
    return {"mean": math.fsum(ordered) / len(ordered), **percentiles, "max": ordered[-1]}


def summary(rate: float, seconds: float, loop: open_loop.Loop, limit: float) -> dict[str, Any]:
    """Return what a step has measured. limit: seconds in which SHARE of the requests, or their first token, comes."""
    answered = [request for request in loop.requests if request.answer.code == OK]
    latencies = [request.answer.ended - request.due for request in answered]
    texts = [request for request in answered if request.answer.first is not None]
    firsts = [float(request.answer.first or 0) - request.due for request in texts]
    judged = firsts or latencies
    elapsed = max([seconds, *(request.answer.ended - loop.began for request in answered)])
    lateness = spread([request.sent - request.due for request in loop.requests]) or {}
    slowest = (spread(judged) or {}).get("p99", 0.0)
    late = lateness["p99"] > max(LATE_OF_P99 * slowest, LATE_OF_LIMIT * limit)
    state = OVERLOADED if loop.overloaded else LATE if late else MEASURED
    step = {
        "rate": rate,
        "state": state,
        "held": state != OVERLOADED and sum(value <= limit for value in judged) >= SHARE * len(loop.requests),
        "seconds": elapsed,
        "requests": len(loop.requests),
        "achieved": len(answered) / elapsed,
        "codes": dict(Counter(request.answer.code for request in loop.requests)),
        "latency_seconds": spread(latencies),
        "lateness_seconds": lateness,
    }
    if texts:
        step["first_token_seconds"] = spread(firsts)
        step["seconds_per_token"] = spread(
            [
                (float(text.answer.last or 0) - float(text.answer.first or 0)) / (text.answer.tokens - 1)
                for text in texts
                if text.answer.tokens > 1
            ]
        )
        step["tokens_per_second"] = sum(text.answer.tokens for text in texts) / elapsed
    return step


def remark(step: Mapping[str, Any]) -> str:
    """Return what is to be known of a step. Its instances are None where their number is not known."""
    before, after = ("not known" if number is None else number for number in step["instances"])
    late = step["lateness_seconds"]["p99"]
    states = {
        OVERLOADED: "overloaded: ended with too many requests under way",
        LATE: f"not measured: requests were sent up to {late:.2g} s late (p99) by this machine",
    }
    errors = ", ".join(f"{code}: {times}" for code, times in step["codes"].items() if code != OK)
    over = "" if step["held"] or errors or step["state"] in states else "over the limit"
    changed = f"instances: {before}, then {after}" if before != after else ""
    return "; ".join(filter(None, [states.get(step["state"], ""), over, errors, changed]))
