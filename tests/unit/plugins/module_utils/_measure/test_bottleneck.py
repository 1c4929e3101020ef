from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import bottleneck


def measured(
    *ranks: tuple[str, float, float, float], calls: float = 10, size: float = 1e8, collectives: bool = True
) -> dict[str, Any]:
    """Return what results.json has: ranks as (host, seconds of compute, of communication, of input)."""
    return {
        "ranks": [
            {
                "rank": number,
                "host": host,
                "step_seconds": compute + communication + feeding,
                "compute": compute,
                "communication": communication,
                "input": feeding,
                "other": 0.0,
            }
            for number, (host, compute, communication, feeding) in enumerate(ranks)
        ],
        "collectives": {"calls": calls, "bytes": size, "backend": "gloo"} if collectives else None,
    }


EVEN = (("node0", 0.6, 0.4, 0.0), ("node1", 0.6, 0.4, 0.0))


def test_shares_are_means_over_ranks() -> None:
    found = bottleneck.shares(measured(("node0", 0.5, 0.5, 0.0), ("node1", 0.7, 0.1, 0.2)))
    assert found == pytest.approx({"compute": 0.6, "communication": 0.3, "input": 0.1, "other": 0.0})


def test_shares_of_runs_are_medians_of_those_with_a_split() -> None:
    runs = [{"measured": measured(("node0", 1 - share, share, 0.0))} for share in (0.1, 0.2, 0.9)]
    found = bottleneck.mean_shares([*runs, {"measured": None}, {"measured": {"ranks": []}}])
    assert found is not None
    assert found["communication"] == pytest.approx(0.2)
    assert bottleneck.mean_shares([{"measured": None}]) is None


def test_bandwidth() -> None:
    found = bottleneck.limits(measured(*EVEN, calls=4, size=1e8), 0.6)
    assert found["cause"] == "bandwidth"
    assert found["host"] is None
    assert found["text"].startswith(
        "Bandwidth: communication takes 40% of a step: 4 calls with 100.0 MB take 400 ms, 250 MB/s and rank; exchange"
    )


def test_latency_of_small_buckets() -> None:
    found = bottleneck.limits(measured(*EVEN, calls=200, size=1e7))
    assert found["cause"] == "latency"
    assert "200 calls with 10.0 MB take 400 ms, 25 MB/s and rank, only 50.0 KB a call" in found["text"]


def test_small_buckets_that_fill_the_link_are_bandwidth() -> None:
    found = bottleneck.limits(measured(*EVEN, calls=200, size=4e7), link_mbit=1000)
    assert found["cause"] == "bandwidth"
    assert "of a link of 1000 Mbit/s" in found["text"]


def test_a_slow_host() -> None:
    ranks = (("node0", 0.6, 0.4, 0.0), ("node1", 0.95, 0.05, 0.0), ("node2", 0.62, 0.38, 0.0))
    found = bottleneck.limits(measured(*ranks))
    assert (found["cause"], found["host"]) == ("slow_host", "node1")
    assert "node1 is slow: the slowest rank computes 950 ms in a step, those of the other hosts 610 ms" in found["text"]


def test_several_slow_hosts() -> None:
    ranks = (("node0", 0.7, 0.3, 0.0), ("node1", 0.35, 0.65, 0.0), ("node2", 0.75, 0.25, 0.0))
    found = bottleneck.limits(measured(*ranks))
    assert found["host"] == "node2"
    assert found["text"].startswith("node2, node0 are slow: the slowest rank computes 750 ms in a step, those of the")


def test_a_slow_rank_on_the_only_host_is_no_slow_host() -> None:
    assert bottleneck.slow_hosts(measured(("node0", 0.5, 0.5, 0.0), ("node0", 0.9, 0.1, 0.0)))[0] == {}
    assert bottleneck.slow_hosts({"ranks": []}) == ({}, 0.0)


def test_a_difference_that_is_nothing_of_a_step_is_no_slow_host() -> None:
    found = bottleneck.limits(measured(("node0", 0.001, 0.9, 0.0), ("node1", 0.002, 0.9, 0.0)))
    assert found["cause"] == "bandwidth"


def test_input() -> None:
    found = bottleneck.limits(measured(("node0", 0.5, 0.2, 0.3), ("node1", 0.5, 0.2, 0.3)))
    assert found["cause"] == "input"
    assert "wait 30% of a step for their next batch" in found["text"]


def test_nothing_to_speak_of() -> None:
    found = bottleneck.limits(measured(("node0", 0.95, 0.05, 0.0), ("node1", 0.95, 0.05, 0.0)), 0.97)
    assert found["cause"] == "none"
    assert found["text"] == "Nothing to speak of (efficiency 97%): 95% of a step is compute."


@pytest.mark.parametrize("given", [None, {"ranks": []}, {"ranks": [{"step_seconds": 1.0, "compute": None}]}])
def test_steps_that_were_not_split(given: dict[str, Any] | None) -> None:
    assert bottleneck.limits(given)["cause"] == "unknown"


def test_communication_that_was_not_counted() -> None:
    found = bottleneck.limits(measured(*EVEN, collectives=False))
    assert found["cause"] == "unknown"
    assert "40% of a step" in found["text"]
