"""Waiting for a job on Kubernetes goes on while the API server does not answer: a start is not undone by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import kubernetes_job_wait
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.plugin_utils.pods import JobOfPods
from support.api_server import api_server, status

TEAM = "/api/v1/namespaces/team"
TRAINS = "/apis/batch/v1/namespaces/team/jobs/demo"
PREPARES = "/apis/batch/v1/namespaces/team/jobs/demo-prepare"
OPTIONS: dict[str, Any] = {"job": "demo", "timeout": 0.0, "interval": 0.01}


def test_a_server_that_does_not_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_job_wait, "PAUSE", 0.0)
    about = {"name": "demo-prepare-x", "uid": "p", "labels": {"amx.cluster/role": "prepare"}}
    pending = {"metadata": about, "status": {"phase": "Pending"}, "spec": {"nodeName": "n"}}
    made: dict[str, Any] = {"kind": "Job", "metadata": {"name": "demo-prepare", "uid": "j"}, "status": {}}
    done = {**made, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    busy = status(503, "the server is busy")
    of_events: list[Any] = [busy, {"items": []}]
    of_job: list[Any] = [busy, made, busy, done]
    answers = {
        f"{TEAM}/pods": {"items": [pending]},
        f"{TEAM}/events": lambda _request: of_events.pop(0),
        PREPARES: lambda _request: of_job.pop(0),
    }
    action = object.__new__(kubernetes_job_wait.ActionModule)
    with api_server(answers) as server:
        job = JobOfPods(Api.connect(server.kubeconfig(tmp_path)), "Job", "team", "demo")
        assert action.until_prepared(job, OPTIONS, None)["changed"] is False
        assert (of_events, of_job) == ([], [])
        server.answers[PREPARES] = status(403, "you may not")
        with pytest.raises(ApiError, match="you may not"):
            action.until_prepared(job, OPTIONS, None)


def refuses(request: dict[str, Any]) -> dict[str, Any]:
    """Answer as an API server that keeps an event of the Job of a previous run, and one of this run's."""
    name, _equals, value = request["query"]["fieldSelector"].partition("=")
    told: list[dict[str, Any]] = [
        {"involvedObject": {"name": "demo", "uid": uid}, "reason": "FailedCreate", "message": message}
        for uid, message in (("deleted", "the quota of a week ago"), ("new", "failed calling webhook"))
    ]
    key = name.rpartition(".")[2]
    return {"items": [{"metadata": {"name": "e"}, **one} for one in told if one["involvedObject"][key] == value]}


def test_pods_that_were_not_created_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused once is created a moment later; what refuses it for a while ends the start."""
    monkeypatch.setattr(kubernetes_job_wait.display, "display", lambda text, **_options: said.append(text))
    said: list[str] = []
    number = {"batch.kubernetes.io/job-completion-index": "0"}
    # It runs no longer, so that it is not asked.
    runs = {
        "metadata": {"name": "demo-0-x", "uid": "p", "annotations": number},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Succeeded"},
    }
    looks: list[list[Any]] = [[], [], [runs]]
    answers: dict[str, Any] = {
        f"{TEAM}/pods": lambda _request: {"items": looks.pop(0) if looks else []},
        f"{TEAM}/events": refuses,
        TRAINS: {"kind": "Job", "metadata": {"name": "demo", "uid": "new"}, "spec": {"completions": 1}, "status": {}},
    }
    action = object.__new__(kubernetes_job_wait.ActionModule)
    with api_server(answers) as server:
        job = JobOfPods(Api.connect(server.kubeconfig(tmp_path)), "Job", "team", "demo")
        assert action.until_running(job, OPTIONS, None)["pods"] == ["demo-0-x"]
        assert "failed calling webhook" in said[0]
        assert not any("the quota of a week ago" in text for text in said)
        monkeypatch.setattr(kubernetes_job_wait, "LASTING", 0.0)
        with pytest.raises(ValueError, match="job demo cannot start: no pod can be created: failed calling webhook"):
            action.until_running(job, OPTIONS, None)


def test_a_job_that_prepares_whose_pod_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no training object yet: the Job that prepares makes the pods."""
    monkeypatch.setattr(kubernetes_job_wait, "LASTING", 0.0)
    prepares = {"kind": "Job", "metadata": {"name": "demo-prepare", "uid": "new"}, "spec": {}, "status": {}}
    answers = {f"{TEAM}/pods": {"items": []}, f"{TEAM}/events": refuses, PREPARES: prepares}
    action = object.__new__(kubernetes_job_wait.ActionModule)
    with api_server(answers) as server:
        job = JobOfPods(Api.connect(server.kubeconfig(tmp_path)), "Job", "team", "demo")
        with pytest.raises(ValueError, match=r"no pod can be created: failed .* object demo-prepare"):
            action.until_prepared(job, {**OPTIONS, "timeout": 30.0}, None)
