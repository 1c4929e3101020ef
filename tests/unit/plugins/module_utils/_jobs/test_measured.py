from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import measured
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure, Source
from support import runs

MEASURE = {"warmup_steps": 5, "split": True}


def beat(host: str, mean: float, steps: int = 20, **more: Any) -> dict[str, Any]:
    """The last heartbeat of a rank."""
    seconds = {"median": mean, "low": mean / 2, "high": mean * 2, "mean": mean, "count": steps}
    told = {"warmup_steps": 5, "made": steps + 5, "steps": steps, "step_seconds": seconds, **more}
    return {"host": host, "measured": told}


def split(compute: float, communication: float, **more: Any) -> dict[str, Any]:
    parts = {"compute": compute, "communication": communication, "input": 0.0, "other": 0.0}
    return {**parts, "compute_blocks": [compute, compute], **more}


def test_ranks_are_merged() -> None:
    beats = {
        1: beat("node1", 0.4, 19, **split(0.1, 0.3, calls=2.0, bytes=100.0)),
        0: beat("node0", 0.2, 20, **split(0.2, 0.0, calls=2.0, bytes=100.0)),
    }
    found = measured.merge(beats, MEASURE, "gloo", 64)
    assert found is not None
    assert found.pop("step_seconds") == pytest.approx(
        {"median": 0.3, "low": 0.15, "high": 0.6, "mean": 0.3, "count": 19}
    )
    assert found.pop("samples_per_second") == pytest.approx(64 / 0.3)
    assert found == {
        "warmup_steps": 5,
        "steps": 19,
        "samples_per_step": 64,
        "ranks": [
            {"rank": 0, "host": "node0", "step_seconds": 0.2, **split(0.2, 0.0)},
            {"rank": 1, "host": "node1", "step_seconds": 0.4, **split(0.1, 0.3)},
        ],
        "collectives": {"calls": 2.0, "bytes": 100.0, "backend": "gloo"},
        "overhead": None,
    }


def test_without_a_split_only_the_steps_are_known() -> None:
    found = measured.merge({0: beat("node0", 0.5)}, {**MEASURE, "split": False}, "gloo", None)
    assert found is not None
    assert (found["samples_per_second"], found["collectives"]) == (None, None)
    assert found["ranks"][0]["compute"] is None


def test_a_job_that_is_not_measured_or_makes_too_few_steps() -> None:
    few: dict[int, dict[str, Any]] = {
        0: {"host": "node0", "measured": {"warmup_steps": 5, "made": 3, "steps": 0}},
        1: {"host": "node1"},
    }
    assert measured.merge({0: {"host": "node0"}}, None, "gloo", 8) is None
    assert measured.note({0: {"host": "node0"}}, None) == ""
    assert measured.merge(few, MEASURE, "gloo", 8) is None
    assert measured.note(few, MEASURE) == (
        "nothing was measured: 3 step(s) of an optimizer were seen, and the first 5 are left out (measure: "
        "{warmup_steps: ...}), at least one"
    )
    assert measured.note({0: beat("node0", 0.5)}, MEASURE) == ""


def test_the_plan_has_it_only_when_it_is_on() -> None:
    assert "measure" not in runs.plan(runs.host("node0", 1))
    assert runs.plan(runs.host("node0", 1), measure=Measure(3, split=False))["measure"] == {
        "warmup_steps": 3,
        "split": False,
        "profile": None,
    }


@pytest.mark.parametrize(
    ("args", "models", "expected"),
    [
        ({}, {}, None),
        ({"model_name_or_path": "models/bert"}, {"bert": Source(hub="google-bert/bert-base")}, "google-bert/bert-base"),
        ({"model_name_or_path": "models/mini/"}, {"mini": Source(package="mini==1", path="m")}, "mini"),
        ({"config_name": "models/a"}, {"a": Source(directory="/a"), "b": Source(directory="/b")}, "a"),
        ({"model_name_or_path": "/srv/llama"}, {}, "/srv/llama"),
        ({}, {"only": Source(hub="x/y")}, "x/y"),
        ({}, {"a": Source(hub="x/y"), "b": Source(hub="x/z")}, None),
    ],
)
def test_the_model_of_a_job(args: dict[str, Any], models: dict[str, Source], expected: str | None) -> None:
    assert runs.run(args=args, models=models).job.model() == expected
