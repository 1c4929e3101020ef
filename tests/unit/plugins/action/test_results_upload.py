"""The action that uploads results: what it refuses, what it does in check mode, and how it calls wandb."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.action import results_upload
from support import curves_results, mlflow_server
from support.modules import run_action

# STAND-IN: the program of the package wandb.
WANDB = """#!/bin/sh
[ ! -e fails ] || { echo "No API key configured"; exit 1; }
echo "$@" | tee synced
"""


@pytest.mark.parametrize("check", [True, False])
def test_an_unknown_target(check: bool) -> None:
    answer = run_action(results_upload, {"target": "neptune", "check": check})
    assert (answer["failed"], answer["msg"]) == (True, "upload: 'neptune' is not one of mlflow, wandb")


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"target": "mlflow", "job": "demo", "results": str(tmp_path)}
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert run_action(results_upload, {"target": "mlflow", "check": True})["failed"]
    curves_results.write(tmp_path / "demo")
    with mlflow_server.running() as (uri, store):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert not run_action(results_upload, {**options, "check": True}).get("failed")
        assert not run_action(results_upload, options, check=True).get("failed")
        assert store.experiments == {}
        assert [run_action(results_upload, options)["changed"] for _time in range(2)] == [True, False]
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    page = f"{uri}/#/experiments/1/runs/run0"
    assert said == [f"Uploaded: {page}", f"Was uploaded before: {page}"]


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"target": "wandb", "job": "demo", "results": str(tmp_path)}
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    monkeypatch.setenv("PATH", os.defpath)
    answer = run_action(results_upload, {"target": "wandb", "check": True})
    assert answer["msg"] == (
        "upload=wandb: the package wandb is missing on the control node: run "
        f"{tmp_path}/venv/bin/python -m pip install wandb"
    )
    program = tmp_path / "venv/bin/wandb"
    program.parent.mkdir(parents=True)
    program.write_text(WANDB)
    program.chmod(0o755)
    assert "has no offline run: set report_to: wandb" in run_action(results_upload, options)["msg"]
    runs = [tmp_path / f"demo/output/wandb/offline-run-{number}-s1" for number in (1, 2)]
    for run in runs:
        run.mkdir(parents=True)
    assert run_action(results_upload, options)["changed"]
    assert (tmp_path / "demo/synced").read_text() == f"sync {runs[0]} {runs[1]}\n"
    (tmp_path / "demo/fails").touch()
    answer = run_action(results_upload, options)
    assert answer["msg"] == f"upload=wandb: {program} sync failed with exit code 1:\nNo API key configured"
