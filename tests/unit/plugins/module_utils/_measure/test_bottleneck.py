from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import bottleneck

Rank = tuple[str, float, float, float]


def measured(*ranks: Rank, calls: float = 10, size: float = 1e8, collectives: bool = True) -> dict[str, Any]:
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


EVEN = [("node0", 0.6, 0.4, 0.0), ("node1", 0.6, 0.4, 0.0)]


def test_shares_are_means_over_ranks() -> None:
    found = bottleneck.shares(measured(("node0", 0.5, 0.5, 0.0), ("node1", 0.7, 0.1, 0.2)))
    assert found == pytest.approx({"compute": 0.6, "communication": 0.3, "input": 0.1, "other": 0.0})


def test_shares_of_runs_are_medians_of_those_with_a_split() -> None:
    runs = [measured(("node0", 1 - share, share, 0.0)) for share in (0.1, 0.2, 0.9)]
    found = bottleneck.mean_shares([*runs, {"ranks": []}])
    assert found is not None
    assert found["communication"] == pytest.approx(0.2)
    assert bottleneck.mean_shares([]) is None


@pytest.mark.parametrize(
    ("ranks", "counted", "options", "cause", "text"),
    [
        (
            EVEN,
            {"calls": 4, "size": 1e8},
            {"efficiency": 0.6},
            "bandwidth",
            "Bandwidth: communication takes 40% of a step: 100.0 MB in 4 calls per step take 400 ms "
            "(25.0 MB per call, 250 MB/s per rank); ",
        ),
        (
            EVEN,
            {"calls": 200, "size": 1e7},
            {},
            "latency",
            "take 400 ms (50.0 KB per call, 25 MB/s per rank); exchange gradients in fewer",
        ),
        (EVEN, {"calls": 1.2, "size": 3e5}, {}, "latency", "); exchange gradients less often ("),
        # Small buckets that fill the link.
        (EVEN, {"calls": 200, "size": 4e7}, {"link_mbit": 1000}, "bandwidth", "of a link of 1000 Mbit/s"),
        ([("node0", 0.5, 0.2, 0.3)] * 2, {}, {}, "input", "wait 30% of a step for their next batch"),
        (
            [("node0", 0.95, 0.05, 0.0)] * 2,
            {},
            {"efficiency": 0.97},
            "none",
            "Nothing to speak of (efficiency 97%): 95% of a step is compute.",
        ),
        (EVEN, {"collectives": False}, {}, "unknown", "Communication takes 40% of a step, and its calls"),
    ],
)
def test_what_holds_a_run_back(
    ranks: list[Rank], counted: dict[str, Any], options: dict[str, float], cause: str, text: str
) -> None:
    found = bottleneck.limits([measured(*ranks, **counted)], **options)
    assert (found["cause"], found["host"]) == (cause, None)
    assert text in found["text"]


@pytest.mark.parametrize("given", [None, {"ranks": []}, {"ranks": [{"step_seconds": 1.0, "compute": None}]}])
def test_steps_that_were_not_split(given: dict[str, Any] | None) -> None:
    assert bottleneck.limits([given] if given else [])["cause"] == "unknown"
