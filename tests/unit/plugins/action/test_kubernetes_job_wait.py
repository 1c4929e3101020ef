"""Waiting for a job on Kubernetes goes on while the API server does not answer: a start is not undone by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import kubernetes_job_wait
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.plugin_utils.pods import JobOfPods
from support.api_server import api_server, status

TEAM = "/api/v1/namespaces/team"
PREPARES = "/apis/batch/v1/namespaces/team/jobs/demo-prepare"
OPTIONS: dict[str, Any] = {"job": "demo", "timeout": 0.0, "interval": 0.0}


def test_a_server_that_does_not_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_job_wait, "PAUSE", 0.0)
    pending = {"metadata": {"name": "demo-prepare-x"}, "status": {"phase": "Pending"}, "spec": {"nodeName": "n"}}
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    busy = status(503, "the server is busy")
    of_events: list[Any] = [busy, {"items": []}]
    of_job: list[Any] = [busy, {"status": {}}, busy, done]
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
