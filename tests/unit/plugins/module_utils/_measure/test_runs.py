from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs

PLAN = {
    "hosts": [
        {"host": "node0", "ranks": [{}, {}], "threads_per_rank": 4},
        {"host": "node1", "ranks": [{}, {}], "threads_per_rank": 3},
    ]
}
STEPS = {"median": 0.5, "low": 0.4, "high": 0.6, "mean": 0.5, "count": 20}
MEASURED = {"step_seconds": STEPS, "samples_per_second": 128.0, "samples_per_step": 64, "ranks": []}


def tried(**outcome: Any) -> dict[str, Any]:
    results = {
        "reason": "",
        "started": "2026-11-22T16:00:00+00:00",
        "seconds": 12.5,
        "metrics": {"train_samples_per_second": 100.0},
        "output": "/opt/jobs/demo+on-2-r1/output",
        **outcome,
    }
    return {"job": "demo+on-2-r1", "state": "succeeded", "reason": "", "plan": PLAN, "progress": {}, "outcome": results}


def test_what_was_measured_comes_before_what_the_script_says() -> None:
    found = runs.record(tried(measured=MEASURED))
    assert (found["state"], found["samples_per_second"], found["step_seconds"]) == ("succeeded", 128.0, STEPS)
    assert (found["ranks"], found["ranks_per_node"], found["threads_per_rank"]) == (4, 2, 4)
    assert (found["global_batch"], found["seconds"], found["measured"]) == (64, 12.5, MEASURED)


@pytest.mark.parametrize("measured", [None, {**MEASURED, "samples_per_second": None}])
def test_the_figure_of_the_script_where_there_is_no_other(measured: dict[str, Any] | None) -> None:
    given = tried(measured=measured)
    assert runs.record(given)["samples_per_second"] == 100.0
    assert runs.includes_warmup(given["outcome"])
    assert not runs.includes_warmup(tried(measured=MEASURED)["outcome"])


@pytest.mark.parametrize(
    "metrics", [{}, {"train_samples_per_second": 0}, {"train_samples_per_second": float("nan")}, {"loss": 1.0}]
)
def test_a_job_without_throughput(metrics: dict[str, float]) -> None:
    found = runs.record(tried(metrics=metrics))
    assert (found["state"], found["samples_per_second"]) == ("failed", None)
    assert found["reason"] == (
        "its results have no throughput: train with transformers' Trainer (kind: trainer) and write its metrics to "
        "/opt/jobs/demo+on-2-r1/output/all_results.json, or have the script write train_samples_per_second there"
    )


def test_a_run_that_failed() -> None:
    given = {**tried(reason="node1 no longer answers"), "state": "failed", "reason": "job demo failed: ..."}
    found = runs.record(given)
    assert (found["state"], found["reason"]) == ("failed", "node1 no longer answers")
    assert (found["samples_per_second"], found["measured"]) == (None, None)


def test_a_run_that_was_not_started() -> None:
    given = {"job": "demo+on-2-r1", "state": "failed", "reason": "\n".join("abcdef"), "plan": {}, "outcome": {}}
    found = runs.record(given)
    assert (found["state"], found["reason"], found["ranks"]) == ("failed", "a\nb\nc\nd", None)
    assert runs.record({"state": "failed"})["reason"] == "it ended without a reason"


def test_samples_of_an_epoch() -> None:
    progress = {"epoch": 0.5, "step": 8, "samples_per_step": 48}
    assert runs.samples_per_epoch(progress) == 16 * 48
    for missing in ({}, {**progress, "epoch": None}, {**progress, "samples_per_step": None}):
        assert runs.samples_per_epoch(missing) is None
