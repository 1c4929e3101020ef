"""Which hosts are measured with each other when, and what of the result is called slow."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.network import findings, tournament
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


@given(st.integers(0, 40))
def test_every_pair_meets_once_and_nobody_is_in_two_pairs_at_a_time(count: int) -> None:
    rounds = tournament(count)
    assert sorted(itertools.chain(*rounds)) == list(itertools.combinations(range(count), 2))
    assert len(rounds) == (0 if count < 2 else count - 1 + count % 2)
    for pairs in rounds:
        present = [*itertools.chain(*pairs)]
        assert len(present) == len(set(present))


def hosts(count: int, link: int | None = None) -> list[dict[str, Any]]:
    return [
        {"host": f"node{n}", "address": f"10.0.0.{n}", "interface": f"eth{n}", "link_mbit": link} for n in range(count)
    ]


def pair(one: int, other: int, bandwidth: float, latency: float = 30.0) -> dict[str, Any]:
    names = [f"node{one}", f"node{other}"]
    figures = {"latency_us": latency, "bandwidth_mbyte_s": bandwidth, "meetings_mbyte_s": 3 * [bandwidth]}
    return {"hosts": names, **figures, "state": "measured", "reason": ""}


def failed(one: int, other: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"latency_us": None, "bandwidth_mbyte_s": None, "meetings_mbyte_s": []}
    return {**pair(one, other, 0), **figures, "state": "failed", "reason": "connection reset"}


def network(count: int, bandwidth: float = 110.0) -> dict[tuple[int, int], float]:
    return dict.fromkeys(itertools.combinations(range(count), 2), bandwidth)


def judged(matrix: dict[tuple[int, int], float], link: int | None = None) -> list[tuple[str, Any, Any]]:
    count = 1 + max(itertools.chain(*matrix))
    found = findings(hosts(count, link), [pair(*key, value) for key, value in matrix.items()])
    return [(finding["kind"], finding["host"], finding["pair"]) for finding in found]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], float]]:
    """A network whose pairs differ by up to a fifth."""
    count = draw(st.integers(3, 9))
    base = draw(st.floats(10, 10000))
    pairs = list(itertools.combinations(range(count), 2))
    noise = draw(st.lists(st.floats(0.85, 1.05), min_size=len(pairs), max_size=len(pairs)))
    return count, {key: base * part for key, part in zip(pairs, noise)}


@given(matrices())
def test_nobody_is_named_in_an_even_network(drawn: tuple[int, dict[tuple[int, int], float]]) -> None:
    assert judged(drawn[1]) == []


@given(matrices(), st.data())
def test_a_slowed_host_is_named_and_no_other(
    drawn: tuple[int, dict[tuple[int, int], float]], data: st.DataObject
) -> None:
    count, matrix = drawn
    slow, part = data.draw(st.integers(0, count - 1)), data.draw(st.floats(0.01, 0.4))
    slowed = {key: value * (part if slow in key else 1) for key, value in matrix.items()}
    assert judged(slowed) == [("slow_host", f"node{slow}", None)]


@given(matrices(), st.data())
def test_a_slowed_pair_is_named_and_no_host(
    drawn: tuple[int, dict[tuple[int, int], float]], data: st.DataObject
) -> None:
    _count, matrix = drawn
    slow = data.draw(st.sampled_from(sorted(matrix)))
    found = judged({**matrix, slow: matrix[slow] * 0.3})
    assert found == [("slow_pair", None, [f"node{one}" for one in slow])]


def simulated(chance: random.Random, count: int, spread: float, slow: float = 1.0) -> list[dict[str, Any]]:
    """Pairs that meet three times, with a spread of their bandwidth; node0 has only the part `slow` of it."""
    found = []
    for one, other in network(count):
        met = [110.0 * (slow if one == 0 else 1) * chance.lognormvariate(0, spread) for _meeting in range(3)]
        found.append({**pair(one, other, max(met)), "meetings_mbyte_s": met})
    return found


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
@pytest.mark.parametrize(("count", "times"), [(4, 500), (8, 300), (16, 200), (64, 20)])
def test_of_equal_hosts_fewer_than_one_percent_of_networks_have_a_slow_one(
    count: int, times: int, spread: float
) -> None:
    chance = random.Random(count)
    alarms = sum(bool(findings(hosts(count), simulated(chance, count, spread))) for _network in range(times))
    assert alarms < 0.01 * times


@pytest.mark.parametrize(("count", "times"), [(4, 300), (8, 200), (16, 100)])
def test_a_host_at_a_third_of_the_speed_is_named_in_more_than_95_percent(count: int, times: int) -> None:
    chance = random.Random(count)
    found = [findings(hosts(count), simulated(chance, count, 0.1, slow=1 / 3)) for _network in range(times)]
    assert sum([one["host"] for one in each] == ["node0"] for each in found) > 0.95 * times


def test_pairs_that_met_once_are_not_compared() -> None:
    once = [{**one, "meetings_mbyte_s": one["meetings_mbyte_s"][:1]} for one in simulated(random.Random(1), 4, 0, 0.1)]
    assert findings(hosts(4), once) == []


def test_two_slowed_hosts_of_five() -> None:
    matrix = {key: 20.0 if {1, 3} & set(key) else 110.0 for key in network(5)}
    assert judged(matrix) == [("slow_host", "node1", None), ("slow_host", "node3", None)]


def test_a_host_that_answers_late_is_named_once() -> None:
    pairs = [pair(*key, 110.0, 900.0 if 2 in key else 30.0) for key in network(4)]
    (found,) = findings(hosts(4), pairs)
    assert (found["kind"], found["host"]) == ("slow_host", "node2")
    assert found["text"].startswith(
        "node2 answers late: 900 µs at best with another host, where the median host has 30 µs."
    )


def test_a_late_pair_is_no_finding() -> None:
    pairs = [pair(*key, 110.0, 900.0 if key == (1, 2) else 30.0) for key in network(4)]
    assert findings(hosts(4), pairs) == []


def test_two_hosts_are_compared_with_their_links_only() -> None:
    assert judged({(0, 1): 1.0}) == []
    assert judged({(0, 1): 117.0}, 1000) == []
    assert judged({(0, 1): 12.0}, 1000) == [("below_nominal", None, ["node0", "node1"])]


def test_all_hosts_below_their_links_are_one_finding() -> None:
    (found,) = findings(hosts(4, 1000), [pair(*key, 12.0) for key in network(4)])
    assert (found["kind"], found["host"], found["pair"]) == ("below_nominal", None, None)
    assert "All hosts are below the speed of their links: 12.0 MB/s at best of 1000 Mbit/s (125 MB/s)" in found["text"]


def test_a_link_that_one_connection_does_not_fill() -> None:
    (found,) = findings(hosts(2, 100000), [pair(0, 1, 3000.0)])
    assert "of 100 Gbit/s (12500 MB/s). One TCP connection does not fill such a link" in found["text"]


def test_a_slow_host_is_measured_against_the_median_and_its_link() -> None:
    machines = hosts(4, 1000)
    machines[2]["link_mbit"] = 100
    (found,) = findings(machines, [pair(*key, 11.7 if 2 in key else 117.0) for key in network(4)])
    assert found["text"] == (
        "node2 is slow: 11.7 MB/s at best with another host, where the median host reaches 117.0 MB/s; its link eth2 "
        "is nominally 100 Mbit/s (12.5 MB/s), those of others 1000 Mbit/s (125 MB/s). On node2, look at ethtool eth2 "
        "(speed, duplex), ip -s link show eth2 (errors, drops) and tc qdisc show dev eth2 (limits), then at its cable "
        "and its switch port."
    )


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({(0, 2), (1, 2), (2, 3)}, [("node2", None)]),
        ({(0, 2)}, [(None, ["node0", "node2"])]),
        (set(network(4)), [(None, [f"node{one}", f"node{other}"]) for one, other in network(4)]),
    ],
)
def test_what_could_not_be_measured(bad: set[tuple[int, int]], expected: list[Any]) -> None:
    found = findings(hosts(4), [failed(*key) if key in bad else pair(*key, 110.0) for key in network(4)])
    assert [(one["host"], one["pair"]) for one in found] == expected
    assert all(one["kind"] == "failed" and "connection reset" in one["text"] for one in found)
    assert all(re.search("playbooks/doctor.yml", one["text"]) for one in found)
