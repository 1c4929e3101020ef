"""Where the time of real steps goes by kind of operation: two ranks, the real torch and its profiler.

Shares only: how long a step takes is up to the machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import profiles
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import OPERATIONS
from support import zoo


def results_of(environment: Path, folder: Path, job: dict[str, Any] | None = None, **env: str) -> dict[str, Any]:
    """Run the script `profiled` of the zoo; return its results.json."""
    given = {"measure": Measure(warmup_steps=3, profile=4), **(job or {}), "env": env}
    kind = {"kind": "trainer"} if env["MODEL"] == "bert" else {}
    status, log = zoo.run(zoo.Case("profiled", {**kind, **given}, expect={"steps": 12}), folder, environment)
    assert status["state"] == "succeeded", log
    assert "_amx_cluster" not in log
    found: dict[str, Any] = json.loads((folder / "jobs/profiled/results.json").read_text())
    return found


def profiled(environment: Path, folder: Path, job: dict[str, Any] | None = None, **env: str) -> dict[str, Any]:
    """Return the profile of the job's one host."""
    results = results_of(environment, folder, job, **env)
    assert "profiler_st" not in (folder / "jobs/profiled/log").read_text()
    assert results["notes"] == []
    # The steps that are profiled, and the one in which ranks wait for the sums, are in no other time.
    assert results["measured"]["steps"] == 12 - 3 - 4 - 1
    found = results["measured"]["profile"]
    (host,) = found["hosts"]
    assert (found["steps"], host["rank"], host["host"]) == (4, 0, "localhost")
    assert set(host["kinds"]) == set(OPERATIONS)
    assert min(host["kinds"].values()) >= 0
    assert sum(host["kinds"].values()) == pytest.approx(found["seconds_of_a_step"], rel=0.05)
    assert len(host["operations"]) == 10
    assert {one["kind"] for one in host["operations"]} <= set(OPERATIONS)
    return {**host, "shares": profiles.shares(host["kinds"])}


def test_dropout_and_attention_of_bert(environment: Path, tmp_path: Path) -> None:
    found = profiled(environment, tmp_path / "with", MODEL="bert", DROPOUT="0.1")["shares"]
    assert found["dropout"] > 0.02
    assert found["attention"] > 0.02
    assert min(found[kind] for kind in ("products", "elementwise", "optimizer", "input")) > 0
    assert found["collectives"] > 0
    without = profiled(environment, tmp_path / "without", MODEL="bert", DROPOUT="0")["shares"]
    assert without["dropout"] < 0.01
    assert without["attention"] > 0.01


def test_an_optimized_attention_has_its_backward_pass(environment: Path, tmp_path: Path) -> None:
    found = profiled(environment, tmp_path, {"optimize": "auto"}, MODEL="bert", DROPOUT="0.1")
    # The products of two layers, two of each in the forward pass and four in the backward pass, are attention's alone.
    products = [(one["kind"], one["calls"] % 12) for one in found["operations"] if one["name"] == "aten::baddbmm"]
    assert products == [("attention", 0)]
    assert found["shares"]["attention"] > 0.05
    assert found["shares"]["dropout"] > 0.01


def test_products_are_most_of_a_wide_model_in_a_plain_loop(environment: Path, tmp_path: Path) -> None:
    found = profiled(environment, tmp_path, MODEL="wide")
    computing = {kind: share for kind, share in found["shares"].items() if kind not in ("collectives", "other")}
    assert max(computing, key=lambda kind: computing[kind]) == "products"
    assert found["operations"][0]["kind"] in ("products", "collectives", "other")
    assert found["shares"]["dropout"] < 0.001
    assert found["shares"]["attention"] == 0


def test_a_script_that_uses_the_profiler_itself(environment: Path, tmp_path: Path) -> None:
    results = results_of(environment, tmp_path, MODEL="wide", OWN="1")
    assert results["notes"] == ["steps were not profiled on localhost: the script uses torch's profiler itself"]
    assert results["measured"]["profile"] is None
    assert results["measured"]["steps"] == 12 - 3 - 4 - 1
