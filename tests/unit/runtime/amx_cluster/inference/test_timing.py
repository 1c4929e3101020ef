from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from amx_cluster.inference import timing
from hypothesis import given
from hypothesis import strategies as st

LATENCIES = st.lists(st.floats(min_value=1e-6, max_value=10), min_size=1, max_size=50)


class Time:
    """A clock that only requests and sleeping move on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    def request(self, took: Callable[[int], float]) -> timing.Request:
        return lambda number: self.sleep(took(number))


@pytest.mark.slow
@given(took=st.floats(min_value=1e-3, max_value=2), seconds=st.floats(min_value=0.1, max_value=5))
def test_a_closed_loop_lasts_as_long_as_it_should(took: float, seconds: float) -> None:
    clock = Time()
    loop = timing.closed_loop(clock.request(lambda _number: took), seconds, clock=clock)
    assert loop.seconds >= seconds or loop.count == timing.FEWEST
    assert loop.count == loop.offered >= timing.FEWEST
    assert loop.seconds == pytest.approx(loop.count * took)
    # Without the last request it would have been too short.
    assert loop.count == timing.FEWEST or loop.seconds - took < seconds
    assert loop.overhead() == pytest.approx(0, abs=1e-6)


def test_what_the_driver_takes_is_its_overhead() -> None:
    loop = timing.Loop([0.3, 0.3, 0.3], 1.0, 3)
    assert loop.overhead() == pytest.approx(0.1)


def test_warm_up_makes_the_iterations_and_takes_the_time() -> None:
    clock = Time()
    assert timing.warm_up(clock.request(lambda _number: 10), 3, seconds=0.5, clock=clock) == 3
    assert timing.warm_up(clock.request(lambda _number: 0.1), 3, seconds=1.05, clock=clock) == 11


@given(rate=st.floats(min_value=0.5, max_value=200), seed=st.integers(0, 1000))
def test_arrivals_are_ordered_within_the_time_and_the_same_for_the_same_seed(rate: float, seed: int) -> None:
    times = timing.arrivals(rate, 10, seed)
    assert times == sorted(times) == timing.arrivals(rate, 10, seed)
    assert all(0 <= moment < 10 for moment in times)
    # Poisson's: the standard deviation of the count is its root.
    assert abs(len(times) - 10 * rate) < 6 * math.sqrt(10 * rate) + 1


def test_latencies_of_an_open_loop_count_from_when_requests_came() -> None:
    clock = Time()
    loop = timing.open_loop(clock.request(lambda _number: 2), [0.0, 1.0, 5.0], 6, clock=clock, sleep=clock.sleep)
    assert list(loop.latencies) == pytest.approx([2, 3, 2])
    assert (loop.count, loop.offered) == (3, 3)
    assert loop.seconds == pytest.approx(7)


def test_an_open_loop_ends_where_the_rate_is_too_high() -> None:
    clock = Time()
    times = [number / 10 for number in range(100)]
    loop = timing.open_loop(clock.request(lambda _number: 1), times, 10, clock=clock, sleep=clock.sleep)
    assert loop.offered == 100
    assert loop.count == 21  # OVERTIME is 2: what began within 20 seconds
    assert max(loop.latencies) == pytest.approx(21 - 2)


@given(latencies=LATENCIES, size=st.integers(1, 64))
def test_the_interval_lies_around_the_throughput(latencies: list[float], size: int) -> None:
    loop = timing.Loop(latencies, math.fsum(latencies), len(latencies))
    found = timing.throughput(loop, size)
    assert found["value"] == pytest.approx(size * len(latencies) / math.fsum(latencies))
    assert found["value"] is not None
    if len(latencies) < timing.FEWEST:
        assert found["low"] is None
        assert found["high"] is None
    else:
        assert found["low"] is not None
        assert found["low"] <= found["value"]
        assert found["high"] is None or found["high"] >= found["value"]


def test_about_19_of_20_intervals_have_the_true_throughput() -> None:
    chance = random.Random(3)
    hits = 0
    for _run in range(400):
        latencies = [max(1e-4, chance.gauss(0.01, 0.003)) for _request in range(200)]
        found = timing.throughput(timing.Loop(latencies, math.fsum(latencies), 200), 1)
        assert found["low"] is not None
        assert found["high"] is not None
        hits += found["low"] <= 100 <= found["high"]
    assert 0.92 <= hits / 400 <= 0.98


def test_requests_that_depend_on_each_other_widen_the_interval() -> None:
    """Half a loop slow and half of it fast says less than as many requests that alternate."""
    halves, mixed = [0.01] * 100 + [0.02] * 100, [0.01, 0.02] * 100
    widths = []
    for latencies in (halves, mixed):
        found = timing.throughput(timing.Loop(latencies, math.fsum(latencies), 200), 1)
        assert found["low"] is not None
        assert found["high"] is not None
        widths.append(found["high"] - found["low"])
    assert widths[0] > 5
    assert widths[1] < 1e-6


@pytest.mark.slow
@given(latencies=st.lists(st.floats(min_value=1e-6, max_value=10), min_size=1), most=st.integers(2, 40))
def test_thinned_latencies_keep_order_ends_and_middle(latencies: list[float], most: int) -> None:
    kept = timing.microseconds(latencies, most)
    assert kept == sorted(kept)
    assert len(kept) == min(most, len(latencies))
    every = [round(latency * 1e6, 1) for latency in sorted(latencies)]
    assert kept[-1] == every[-1]
    assert kept[0] == every[0]
    assert set(kept) <= set(every)
