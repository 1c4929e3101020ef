"""Waiting for a job on Kubernetes goes on while the API server does not answer: a start is not undone by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import following
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import Follower
from support.api_server import BATCH, TEAM, Server, Store, api_server, status

JOBS = f"{BATCH}/jobs"
LABELS = {"amx.cluster/job": "demo", "app.kubernetes.io/managed-by": "amx.cluster"}


def follower(server: Server, folder: Path, said: list[str] | None = None, timeout: float = 0) -> Follower:
    """Return what follows job demo. Lists that the test does not answer are empty."""
    server.others = Store().answer
    api = Api.connect(server.kubeconfig(folder), namespace="team")
    say = (said if said is not None else []).append
    return Follower(api, "demo", "demo", "Job", say, timeout, interval=0.01)


@pytest.mark.slow
def test_a_server_that_does_not_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE", 0.0)
    about = {"name": "demo-prepare-x", "uid": "p", "labels": {**LABELS, "amx.cluster/role": "prepare"}}
    pending = {"metadata": about, "status": {"phase": "Pending"}, "spec": {"nodeName": "n"}}
    made: dict[str, Any] = {
        "kind": "Job",
        "metadata": {"name": "demo-prepare", "uid": "j", "labels": LABELS},
        "status": {},
    }
    done = {**made, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    busy = status(503, "the server is busy")
    of_events: list[Any] = [busy, {"items": []}]
    of_job: list[Any] = [busy, {"items": [made]}, busy, {"items": [done]}]
    answers: dict[str, Any] = {
        f"{TEAM}/pods": {"items": [pending]},
        f"{TEAM}/events": lambda _request: of_events.pop(0),
        JOBS: lambda _request: of_job.pop(0),
    }
    with api_server(answers) as server:
        follower(server, tmp_path).until_prepared()
        assert (of_events, of_job) == ([], [])
        server.answers[JOBS] = status(403, "you may not")
        with pytest.raises(ApiError, match="you may not"):
            follower(server, tmp_path).until_prepared()


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
    said: list[str] = []
    number = {"batch.kubernetes.io/job-completion-index": "0"}
    # It runs no longer, so that it is not asked.
    runs = {
        "metadata": {"name": "demo-0-x", "uid": "p", "annotations": number, "labels": LABELS},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Succeeded"},
    }
    looks: list[list[Any]] = [[], [], [runs]]
    answers: dict[str, Any] = {
        f"{TEAM}/pods": lambda _request: {"items": looks.pop(0) if looks else []},
        f"{TEAM}/events": refuses,
        JOBS: {"items": [{"metadata": {"name": "demo", "uid": "new", "labels": LABELS}, "spec": {"completions": 1}}]},
    }
    with api_server(answers) as server:
        follower(server, tmp_path, said).until_running()
        assert said[-1] == "  1 pod started: demo-0-x on n"
        assert "failed calling webhook" in said[0]
        assert not any("the quota of a week ago" in text for text in said)
        monkeypatch.setattr(following, "LASTING", 0.0)
        with pytest.raises(ValueError, match="job demo cannot start: no pod can be created: failed calling webhook"):
            follower(server, tmp_path).until_running()


def test_a_job_that_prepares_whose_pod_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no training object yet: the Job that prepares makes the pods."""
    monkeypatch.setattr(following, "LASTING", 0.0)
    prepares = {"metadata": {"name": "demo-prepare", "uid": "new", "labels": LABELS}, "spec": {}, "status": {}}
    answers = {f"{TEAM}/pods": {"items": []}, f"{TEAM}/events": refuses, JOBS: {"items": [prepares]}}
    with (
        api_server(answers) as server,
        pytest.raises(ValueError, match=r"no pod can be created: failed .* object demo-prepare"),
    ):
        follower(server, tmp_path, timeout=30).until_prepared()


class Shown:
    """What is shown of a job that is followed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def show(self, seen: Any) -> None:
        self.seen.append(seen)


@pytest.mark.parametrize(
    ("message", "condition", "expected"),
    [
        ('{"state": "succeeded", "reason": ""}', "Complete", ""),
        ('{"state": "stopped", "reason": "on request"}', "Failed", "job demo stopped: on request"),
        (
            '{"state": "failed", "reason": "loss is nan"}',
            "Failed",
            "job demo failed: pod demo-0-x: loss is nan\nTraceback",
        ),
    ],
)
def test_a_job_that_ends(tmp_path: Path, message: str, condition: str, expected: str) -> None:
    """Its first pod has ended, so that it is not asked: what it has left tells."""
    number = {"batch.kubernetes.io/job-completion-index": "0"}
    ended = {"terminated": {"exitCode": 1 if expected else 0, "message": message}}
    pod = {
        "metadata": {"name": "demo-0-x", "uid": "p", "annotations": number, "labels": LABELS},
        "spec": {"containers": [{"name": "train"}]},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "train", "state": ended}]},
    }
    conditions = [{"type": condition, "status": "True"}]
    trains = {"metadata": {"name": "demo", "uid": "j", "labels": LABELS}, "status": {"conditions": conditions}}
    answers: dict[str, Any] = {
        f"{TEAM}/pods": {"items": [pod]},
        JOBS: {"items": [trains]},
        f"{TEAM}/pods/demo-0-x/log": "Traceback (most recent call last):\nValueError: loss is nan\n",
    }
    said: list[str] = []
    with api_server(answers) as server:
        if expected:
            with pytest.raises(following.JobFailed, match=expected):
                follower(server, tmp_path, said).until_ended(Shown())
            return
        assert follower(server, tmp_path, said).until_ended(Shown()) == {"status": {}, "progress": {}, "outcome": {}}
    assert "job demo succeeded" in said[0]


def test_a_job_that_is_removed_while_it_is_followed(tmp_path: Path) -> None:
    with api_server({JOBS: {"items": []}}) as server:
        with pytest.raises(following.JobFailed, match="was removed from the cluster while it was running"):
            follower(server, tmp_path).until_ended(Shown())
        with pytest.raises(ValueError, match="its Job was removed while its pods were starting"):
            follower(server, tmp_path).until_running()
        with pytest.raises(ValueError, match="demo-prepare was removed while it was preparing the data"):
            follower(server, tmp_path).until_prepared()
