from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import attempts


def attempt(origin: str, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"started": "2026-11-27T12:03:10+00:00", "from": origin, "reason": reason, **more}


def test_restarts_have_their_reason_and_their_cost() -> None:
    stalled = "no rank has made a step for 600 s\nrank 1 on b is here:\n  File x\n    y"
    assert attempts.restarts(
        [
            attempt("the beginning", "rank 1 on b failed", step=14),
            attempt("checkpoint-10", stalled, step=12),
            attempt("checkpoint-10", "node1 does not answer any more"),  # of an older version
            attempt("the beginning", ""),
        ]
    ) == [
        "restart 1 at 12:03:10: rank 1 on b failed; continues from checkpoint-10, 4 steps lost",
        "restart 2 at 12:03:10: no rank has made a step for 600 s; rank 1 on b is here; "
        "continues from checkpoint-10, 2 steps lost",
        "restart 3 at 12:03:10: node1 does not answer any more; continues from the beginning",
    ]
    assert attempts.restarts([attempt("the beginning", "x")]) == []


def test_a_prediction_keeps_the_rows_that_are_predicted() -> None:
    shown = attempts.restarts([attempt("the beginning", "x", step=0), attempt("the beginning", predicts=True)])
    assert shown == ["restart 1 at 12:03:10: x; continues with the rows that are not predicted"]
