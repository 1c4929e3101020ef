"""Reports as one JSON document: what each playbook prints with format json."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import (
    job_plan,
    job_read,
    job_status,
    prediction_report,
    verification_report,
)
from support.modules import run_action
from support.runs import answer

JSON = {"format": "json"}


def printed(capsys: pytest.CaptureFixture[str], action: ModuleType, **options: Any) -> tuple[dict[str, Any], Any]:
    """What an action returns, and the one document that it prints."""
    answer = run_action(action, {**options, **JSON})
    (line,) = capsys.readouterr().out.splitlines()
    return answer, json.loads(line)


def job(name: str) -> dict[str, Any]:
    status = {"job": name, "state": "running", "reason": "", "started": "2026", "hosts": 1, "ranks": 1}
    return {"path": f"/jobs/{name}", "status": status, "progress": {}}


def test_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    seen = {"jobs": [job("demo"), job("mine")], "processes": [{"job": "/jobs/mine", "rank": 0}]}
    given = {"gathered": {"node0": seen, "node1": {"unreachable": True}}}
    _answer, document = printed(capsys, job_status, **given)
    assert [(one["name"], len(one["ranks"])) for one in document["jobs"]] == [("demo", 0), ("mine", 1)]
    _answer, document = printed(capsys, job_status, **given, job="mine", query="jobs[].[name, status.state]")
    assert document == [["mine", "running"]]
    missing = run_action(job_status, {**given, **JSON, "job": "other"})
    assert missing["msg"].startswith("no job other was started")


def test_a_job_whose_secrets_were_removed(capsys: pytest.CaptureFixture[str]) -> None:
    ended = job("demo")
    ended["status"] |= {"started": "2026-11-20T13:00:00+00:00", "secrets_left": ["node1", "node2"]}
    removed = {"node0": [], "node1": ["/jobs/demo/secrets.json"], "node2": None}
    given = {"gathered": {"node0": {"jobs": [ended]}, "node1": {}, "node2": {}}}
    run_action(job_status, {**given, "job": "demo", "removed": removed})
    text = " ".join(capsys.readouterr().out.split())
    assert re.match("node1 had secrets of ended jobs, .*: /jobs/demo/secrets.json job demo", text)
    assert "node2 did not answer at its end, and may have its secrets.json still: " in text
    _answer, document = printed(capsys, job_status, **given, removed=removed)
    assert document["jobs"][0]["status"]["secrets_left"] == ["node2"]
    run_action(job_status, {**given, "job": "demo", "removed": {"node1": [], "node2": []}})
    assert "secrets" not in capsys.readouterr().out


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "demo.yml").write_text("{name: demo, script: train.py, env: {A_TOKEN: hf_secret}}")
    read = run_action(job_read, {"file": str(tmp_path / "demo.yml"), "hosts": ["node0"]})
    found = answer("node0", 2, previous={"state": "failed", "checkpoint": True})
    given = {"run": read["run"], "hosts": ["node0"], "answers": {"node0": found}}
    planned, document = printed(capsys, job_plan, **given, resume="auto")
    assert planned["plan"] == document
    assert (planned["due"], planned["resumes"], planned["source"]) == (False, True, "")
    assert run_action(job_plan, {**given, "purpose": "train"})["due"]
    assert not run_action(job_plan, {**given, "resume": "no"})["resumes"]
    refused = run_action(job_plan, {**given, "resume": "banana"})
    assert refused["msg"] == "job_resume: 'banana' is neither auto, true nor false"
    capsys.readouterr()
    assert document["world_size"] == 2
    assert "hf_secret" not in json.dumps(document)


def test_verification(capsys: pytest.CaptureFixture[str]) -> None:
    plan = {
        "backend": "gloo",
        "precision": "fp32",
        "environment": "/opt/env",
        "hosts": [{"host": "node0", "isa": "amx", "env": {}, "ranks": [{"rank": 0}]}],
    }
    compared, document = printed(capsys, verification_report, plan=plan, observed=[])
    difference = "node0, rank 0, host: planned node0, observed missing"
    assert (compared["failed"], document["differences"], document["observed"]) == (True, [difference], [])
    assert document["findings"][0] == {
        "host": "node0",
        "rank": 0,
        "what": "host",
        "planned": "node0",
        "observed": "missing",
        "ok": False,
    }


def test_a_prediction_of_no_row_fails(tmp_path: Path) -> None:
    (tmp_path / "prediction.json").write_text('{"version": 1, "state": "incomplete"}')
    contents = {"predictions.jsonl": "", "predictions.rejected.jsonl": '{"line": 1, "reason": "has 1", "row": ""}\n'}
    files = []
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        files.append({"file": name, "bytes": len(text), "sha256": digest})
    summary = {"predicted": 0, "rejected": 1, "instances": 0, "rows_per_second": None, "files": files}
    refused = run_action(prediction_report, {"directory": str(tmp_path), "summary": summary})
    rejected = tmp_path / "predictions.rejected.jsonl"
    assert refused["msg"] == f"no row could be predicted: line 1 has 1. All lines are in {rejected}"
    assert json.loads((tmp_path / "prediction.json").read_text())["state"] == "complete"
