"""A sweep on the control node, run after run, as the role scale calls its actions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_read, sweep_check, sweep_report, sweep_step
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, sweeps
from support.modules import run_action


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "train.py").touch()
    (tmp_path / "demo.yml").write_text("{name: demo, script: train.py, args: {seed: 1}}")
    results = str(tmp_path / "results")
    return {"file": str(tmp_path / "demo.yml"), "hosts": ["node0", "node1"], "results": results, "repeats": 1}


def tried(step: dict[str, Any], speed: float | None) -> dict[str, Any]:
    """Return what came of the run that a step has chosen; None: it failed."""
    hosts = [{"threads_per_rank": 2, "ranks": [{}, {}]}] * step["run"]["hosts"]
    return {
        "job": step["run"]["job"],
        "state": "failed" if speed is None else "succeeded",
        "reason": "" if speed else "no space left on node1",
        "plan": {"stack": "native", "precision": "bf16", "backend": "gloo", "hosts": hosts},
        "outcome": {"metrics": {"train_samples_per_second": speed}, "seconds": 9.0} if speed else {},
    }


def content(options: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(Path(options["results"], "demo-scale/sweep.json").read_text()))


def test_a_sweep_is_continued_where_it_stopped(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    checked = run_action(sweep_check, options)
    assert (len(checked["left"]), checked["made"], checked["interrupted"]) == (3, 0, [])
    assert not Path(options["results"]).exists()
    step = run_action(sweep_step, options)
    assert step["run"]["job"] == "demo+sanity"
    step = run_action(sweep_step, {**options, "tried": tried(step, 50.0), "cpu": "Xeon"})
    assert step["run"]["job"] == "demo+one-process-r1"
    step = run_action(sweep_step, {**options, "tried": tried(step, 60.0)})
    assert step["run"]["job"] == "demo+on-1-r1"
    # Interrupted here: what was started is known, and the sanity run comes first again.
    checked = run_action(sweep_check, options)
    assert (checked["made"], checked["interrupted"]) == (1, ["demo+on-1-r1"])
    step = run_action(sweep_step, options)
    assert step["run"]["job"] == "demo+sanity"
    for speed in (50.0, 100.0):
        step = run_action(sweep_step, {**options, "tried": tried(step, speed)})
    assert step["run"]["job"] == "demo+on-2-r1"
    step = run_action(sweep_step, {**options, "tried": tried(step, 150.0)})
    assert (step["run"], step["trial"]) == ({}, {})
    assert (content(options)["state"], content(options)["cpu"]) == ("complete", "Xeon")
    assert run_action(sweep_check, options)["left"] == []
    capsys.readouterr()
    run_action(sweep_report, {"path": checked["path"], "format": "json", "query": "counts[].speedup.median"})
    assert json.loads(capsys.readouterr().out) == [1.0, 1.5]


def test_a_step_can_be_read_as_a_job(options: dict[str, Any]) -> None:
    step = run_action(sweep_step, options)
    read = run_action(job_read, {"file": options["file"], "hosts": options["hosts"], "derive": step["trial"]})
    assert (read["job"]["name"], read["hosts"]) == ("demo+sanity", ["node0", "node1"])
    assert read["job"]["args"] == {"seed": 1, "do_train": True, "save_strategy": "no", "max_steps": 2}


def test_a_failed_sanity_run(options: dict[str, Any]) -> None:
    step = run_action(sweep_step, options)
    step = run_action(sweep_step, {**options, "tried": tried(step, None)})
    assert step["msg"] == "The sanity run demo+sanity failed, nothing else was started: no space left on node1"
    assert content(options)["sanity"]["reason"] == "no space left on node1"


def test_again_moves_the_sweep_aside(options: dict[str, Any]) -> None:
    run_action(sweep_step, options)
    Path(options["results"], "demo-scale/note").write_text("kept")
    Path(options["file"]).with_name("train.py").write_text("changed = True\n")
    assert "- the content of train.py differs" in run_action(sweep_check, options)["msg"]
    assert "results of both cannot be mixed" in run_action(sweep_step, options)["msg"]
    assert not run_action(sweep_check, {**options, "again": True}).get("failed")
    run_action(sweep_step, {**options, "again": True})
    (aside,) = Path(options["results"]).glob("demo-scale.*")
    assert (aside / "note").read_text() == "kept"
    assert not Path(options["results"], "demo-scale/note").exists()


def test_the_link_of_the_slowest_host(tmp_path: Path) -> None:
    network = tmp_path / "network.json"
    hosts = [{"host": "node0", "link_mbit": 25000}, {"host": "node1", "link_mbit": 10000}, {"host": "node2"}]
    network.write_text(json.dumps({"hosts": hosts}))
    link = sweep_step.ActionModule.link
    assert link(str(network), ["node0", "node1"]) == 10000
    assert link(str(network), ["node0", "node2"]) is None
    assert link(str(tmp_path / "none.json"), ["node0"]) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("repeat", "repeat: unknown option; did you mean repeats?"),
        ("scalling", "scalling: unknown option; did you mean scaling?"),
        *((name, "") for name in ("repeats", "cluster_user", "job_env", "ansible_user", "my_own")),
    ],
)
def test_misspelt_options(name: str, said: str) -> None:
    assert requested.misspelt([name], sweeps.OPTIONS) == said
