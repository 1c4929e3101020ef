"""Where the time of real steps goes: two ranks with DistributedDataParallel, of which input or one rank is slow.

Ratios only: how long a step takes is up to the machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure
from support import zoo
from support.at_length import only_at_length

PARTS = ("compute", "communication", "input", "other")
GRADIENT_BYTES = 4 * (256 * 256 + 256 + 256 + 1)


def measured(environment: Path, folder: Path, backend: str = "gloo", **env: str) -> dict[str, Any]:
    """Run the script `measured` of the zoo; return its results.json's part of the same name."""
    case = zoo.Case(
        "measured",
        {"backend": backend, "measure": Measure(warmup_steps=4), "env": {**env, "BACKEND": backend}},
        expect={"steps": 16},
    )
    status, log = zoo.run(case, folder, environment)
    assert status["state"] == "succeeded", log
    assert "_amx_cluster" not in log
    job = folder / "jobs/measured"
    found: dict[str, Any] = json.loads((job / "results.json").read_text())["measured"]
    points = json.loads((job / "utilization.json").read_text())["hosts"]["localhost"]
    assert sum(points["busy_cpus"]) > 0
    assert max(points["memory_bytes"]) > 50 << 20
    assert len({len(values) for name, values in points.items() if name != "cpus"}) == 1
    # 16 steps, the first four left out; the rest of each rank's steps without a gap.
    assert (found["steps"], found["step_seconds"]["count"], found["warmup_steps"]) == (12, 12, 4)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    for rank in found["ranks"]:
        assert sum(rank[part] for part in PARTS) == pytest.approx(rank["step_seconds"], rel=0.01)
    steps = found["step_seconds"]
    assert steps["low"] <= steps["median"] <= steps["high"]
    # One reduction for two micro-batches.
    assert found["collectives"]["bytes"] == GRADIENT_BYTES
    assert 1 <= found["collectives"]["calls"] <= 3
    assert found["collectives"]["backend"] == backend
    return found


def test_slow_input_is_input(environment: Path, tmp_path: Path) -> None:
    found = measured(environment, tmp_path, HELD_UP="input")
    for rank in found["ranks"]:
        assert rank["input"] > 0.3 * rank["step_seconds"]


@pytest.mark.parametrize(
    "backend", [pytest.param("gloo", marks=only_at_length("the timers are the same, and gloo is in the first")), "mpi"]
)
def test_a_slow_rank_computes_and_the_other_waits_for_it(environment: Path, tmp_path: Path, backend: str) -> None:
    fast, slow = measured(environment, tmp_path, backend, HELD_UP="rank")["ranks"]
    assert slow["compute"] > 0.3 * slow["step_seconds"]
    assert fast["communication"] > 0.3 * fast["step_seconds"]
    assert slow["communication"] < fast["communication"]
    assert fast["compute"] < slow["compute"]


@pytest.mark.parametrize(
    ("script", "note"),
    [
        pytest.param("two_optimizers", "", marks=only_at_length("it runs in test_healthy_scripts.py, unmeasured")),
        pytest.param(
            "compiled",
            "nothing was measured: 0 step(s)",
            marks=only_at_length("it compiles, as the script does in test_healthy_scripts.py"),
        ),
    ],
)
def test_scripts_run_as_they_do_otherwise(environment: Path, tmp_path: Path, script: str, note: str) -> None:
    status, log = zoo.run(zoo.Case(script, {"measure": Measure(warmup_steps=2)}), tmp_path, environment)
    assert status["state"] == "succeeded", log
    assert "_amx_cluster" not in log
    results = json.loads((tmp_path / "jobs" / script / "results.json").read_text())
    assert "".join(results["notes"]).startswith(note)
    assert (results["measured"] is None) == bool(note)
    if not note:
        assert results["measured"]["collectives"] is None  # of which of two models is not known
