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


def limits(run: dict[str, Any] | None, *more: Any, **options: Any) -> dict[str, Any]:
    """What holds back one run: test_slow_hosts.py has several."""
    return bottleneck.limits([run] if run else [], *more, **options)


EVEN = (("node0", 0.6, 0.4, 0.0), ("node1", 0.6, 0.4, 0.0))


def test_shares_are_means_over_ranks() -> None:
    found = bottleneck.shares(measured(("node0", 0.5, 0.5, 0.0), ("node1", 0.7, 0.1, 0.2)))
    assert found == pytest.approx({"compute": 0.6, "communication": 0.3, "input": 0.1, "other": 0.0})


def test_shares_of_runs_are_medians_of_those_with_a_split() -> None:
    runs = [measured(("node0", 1 - share, share, 0.0)) for share in (0.1, 0.2, 0.9)]
    found = bottleneck.mean_shares([*runs, {"ranks": []}])
    assert found is not None
    assert found["communication"] == pytest.approx(0.2)
    assert bottleneck.mean_shares([]) is None


def test_bandwidth() -> None:
    found = limits(measured(*EVEN, calls=4, size=1e8), 0.6)
    assert found["cause"] == "bandwidth"
    assert found["host"] is None
    assert found["text"].startswith(
        "Bandwidth: communication takes 40% of a step: 4 calls with 100.0 MB take 400 ms, 250 MB/s and rank; exchange"
    )


def test_latency_of_small_buckets() -> None:
    found = limits(measured(*EVEN, calls=200, size=1e7))
    assert found["cause"] == "latency"
    assert "200 calls with 10.0 MB take 400 ms, 25 MB/s and rank, only 50.0 KB a call" in found["text"]


def test_small_buckets_that_fill_the_link_are_bandwidth() -> None:
    found = limits(measured(*EVEN, calls=200, size=4e7), link_mbit=1000)
    assert found["cause"] == "bandwidth"
    assert "of a link of 1000 Mbit/s" in found["text"]


def test_input() -> None:
    found = limits(measured(("node0", 0.5, 0.2, 0.3), ("node1", 0.5, 0.2, 0.3)))
    assert found["cause"] == "input"
    assert "wait 30% of a step for their next batch" in found["text"]


def test_nothing_to_speak_of() -> None:
    found = limits(measured(("node0", 0.95, 0.05, 0.0), ("node1", 0.95, 0.05, 0.0)), 0.97)
    assert found["cause"] == "none"
    assert found["text"] == "Nothing to speak of (efficiency 97%): 95% of a step is compute."


@pytest.mark.parametrize("given", [None, {"ranks": []}, {"ranks": [{"step_seconds": 1.0, "compute": None}]}])
def test_steps_that_were_not_split(given: dict[str, Any] | None) -> None:
    assert limits(given)["cause"] == "unknown"


def test_communication_that_was_not_counted() -> None:
    found = limits(measured(*EVEN, collectives=False))
    assert found["cause"] == "unknown"
    assert "40% of a step" in found["text"]
