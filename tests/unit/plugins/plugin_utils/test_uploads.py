"""Uploads of results: what they refuse, what they send, and how wandb is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils import uploads
from support import curves_results, mlflow_server

# STAND-IN: the program of the package wandb.
WANDB = """#!/bin/sh
[ ! -e fails ] || { echo "No API key configured"; exit 1; }
echo "$@" | tee synced
"""


def test_an_unknown_target() -> None:
    with pytest.raises(ValueError, match="upload: 'neptune' is not one of mlflow, wandb"):
        uploads.of("neptune")


def test_no_upload(tmp_path: Path) -> None:
    assert not uploads.of("")(tmp_path / "demo")


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ValueError, match="MLFLOW_TRACKING_URI"):
        uploads.of("mlflow")
    curves_results.write(tmp_path / "demo")
    with mlflow_server.running() as (uri, store):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        upload = uploads.of("mlflow")
        assert store.experiments == {}
        assert [upload(tmp_path / "demo") for _time in range(2)] == [True, False]
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    page = f"{uri}/#/experiments/1/runs/run0"
    assert said == [f"Uploaded: {page}", f"Was uploaded before: {page}"]


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(ValueError) as missing:
        uploads.of("wandb")
    assert str(missing.value) == (
        "upload=wandb: the package wandb is missing on the control node: run "
        f"{tmp_path}/venv/bin/python -m pip install wandb"
    )
    program = tmp_path / "venv/bin/wandb"
    program.parent.mkdir(parents=True)
    program.write_text(WANDB)
    program.chmod(0o755)
    upload = uploads.of("wandb")
    with pytest.raises(ValueError, match="has no offline run: set report_to: wandb"):
        upload(tmp_path / "demo")
    runs = [tmp_path / f"demo/output/wandb/offline-run-{number}-s1" for number in (1, 2)]
    for run in runs:
        run.mkdir(parents=True)
    assert upload(tmp_path / "demo")
    assert (tmp_path / "demo/synced").read_text() == f"sync {runs[0]} {runs[1]}\n"
    (tmp_path / "demo/fails").touch()
    with pytest.raises(ValueError) as failed:
        upload(tmp_path / "demo")
    assert str(failed.value) == f"upload=wandb: {program} sync failed with exit code 1:\nNo API key configured"
