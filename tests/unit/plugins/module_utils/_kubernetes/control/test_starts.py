"""Of several starts of a job at the same time one is first, and one that fails loses nothing of the previous run."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, starts
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    SINCE,
    START,
)
from support.api_server import Server, api_server, status

CONFIGS = "/api/v1/namespaces/team/configmaps"
LABELS = {jobs.MANAGED_BY: jobs.MANAGER, JOB_LABEL: "smoke"}


def config(user: str, **data: str) -> dict[str, Any]:
    notes = {START: f"of-{user}", BY_USER: user, SINCE: "2026-11-22T12:00:00+00:00"}
    about = {"name": "smoke", "namespace": "team", "labels": LABELS, "annotations": notes}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


class Store:
    """The one ConfigMap of an API server, and which versions it has had."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.version = 0
        self.lock = threading.Lock()

    def keep(self, one: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.there = {**one, "metadata": {**one["metadata"], "uid": "u", "resourceVersion": str(self.version)}}
        return self.there

    def answer(self, request: dict[str, Any]) -> Any:
        with self.lock:
            if request["method"] == "POST":
                return status(409, "exists") if self.there else (201, self.keep(request["body"]))
            if not self.there:
                return status(404, "not found")
            if request["method"] == "GET":
                return self.there
            changes = {one["path"]: one["value"] for one in request["body"]}
            about = self.there["metadata"]
            if changes.pop("/metadata/resourceVersion") != about["resourceVersion"]:
                return status(409, "the object has been modified")
            notes = {key: changes.pop(f"/metadata/{key}") for key in ("labels", "annotations")}
            made = {**self.there, **{path[1:]: value for path, value in changes.items()}}
            return self.keep({**made, "metadata": {**about, **notes}})


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def server(store: Store) -> Iterator[Server]:
    with api_server({CONFIGS: store.answer, f"{CONFIGS}/smoke": store.answer}) as running:
        yield running


@pytest.fixture
def api(server: Server, tmp_path: Path) -> Api:
    return Api.connect(server.kubeconfig(tmp_path))


@pytest.mark.parametrize("previous", [False, True])
def test_one_of_several_starts_at_the_same_time_is_first(api: Api, store: Store, previous: bool) -> None:
    """Their checks have all seen the same: no ConfigMap, or that of the previous run."""
    version = (
        starts.write(api, "smoke", config("before"), starting=False)["metadata"]["resourceVersion"] if previous else ""
    )
    outcomes = dict[str, str]()

    def start(user: str) -> None:
        try:
            starts.write(api, "smoke", config(user, file=user), version)
            outcomes[user] = ""
        except ValueError as error:
            outcomes[user] = str(error)

    users = ["ada", "bob", "cyd", "dee"]
    threads = [threading.Thread(target=start, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [user for user in users if not outcomes[user]]
    assert store.there["data"] == {"file": winner}
    assert store.there["metadata"]["annotations"][START] == f"of-{winner}"
    refused = (
        f"job smoke was started by {winner} at the same time (since 2026-11-22T12:00:00+00:00), and that start was "
        "first: follow it (playbooks/logs.yml -e job=smoke), or give this job another name"
    )
    assert {outcomes[user] for user in users if user != winner} == {refused}


def test_a_start_is_marked_until_what_trains_is_created(api: Api, store: Store) -> None:
    made = starts.write(api, "smoke", config("ada"))
    assert jobs.is_starting(made)
    (found,) = jobs.group([made], [], [], "team")
    assert jobs.status(found)["state"] == "pending"
    assert jobs.status(found)["reason"] == "it is being started"
    version = made["metadata"]["resourceVersion"]
    renewed = starts.write(api, "smoke", config("ada"), version)
    done = starts.write(api, "smoke", config("ada"), renewed["metadata"]["resourceVersion"], starting=False)
    assert not jobs.is_starting(done)
    assert jobs.STARTING not in store.there["metadata"]["annotations"]


def test_a_start_that_was_interrupted_counts_for_a_while(api: Api) -> None:
    notes = {jobs.STARTING: "2026-11-22T12:00:00+00:00"}
    made = {"metadata": {"annotations": notes}}
    began = datetime.fromisoformat(notes[jobs.STARTING])
    assert jobs.is_starting(made, began.replace(minute=9))
    assert not jobs.is_starting(made, began.replace(minute=10))
    assert not jobs.is_starting({"metadata": {"annotations": {**notes, jobs.STATE: "stopped"}}}, began)
    assert not jobs.is_starting({"metadata": {"annotations": {jobs.STARTING: "soon"}}}, began)


def test_a_start_that_was_stopped_or_removed_meanwhile(api: Api, store: Store) -> None:
    made = starts.write(api, "smoke", config("ada"))
    version = made["metadata"]["resourceVersion"]
    notes = {**made["metadata"]["annotations"], jobs.STATE: "stopped"}
    store.keep({**made, "metadata": {**made["metadata"], "annotations": notes}})
    with pytest.raises(ValueError, match=r"^job smoke was stopped during this start: ConfigMap smoke says so$"):
        starts.write(api, "smoke", config("ada"), version)
    store.there = {}
    expected = "job smoke: its ConfigMap smoke was removed from namespace team during this start"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        starts.write(api, "smoke", config("ada"), version)


def test_what_is_refused_for_another_reason_is_not_called_a_conflict(api: Api, server: Server) -> None:
    server.answers[CONFIGS] = status(403, "exceeded quota")
    with pytest.raises(ValueError, match=r"^exceeded quota$"):
        starts.write(api, "smoke", config("ada"))


def test_the_record_of_a_previous_run_has_its_state_and_its_files(api: Api) -> None:
    """Its training object, which has the state, is removed before the new one can be created."""
    conditions = [{"type": "Failed", "status": "True", "message": "loss is nan"}]
    about = {"name": "smoke", "labels": LABELS, "annotations": {START: "of-ada"}}
    trained = {
        "kind": "PyTorchJob",
        "metadata": about,
        "status": {"conditions": conditions, "completionTime": "2026-11-22T12:05:00Z"},
    }
    before = starts.write(api, "smoke", config("ada", file="of ada"))
    (found,) = jobs.group([before], [trained], [], "team")
    record = starts.record(found)
    assert record["data"] == {"file": "of ada"}
    assert jobs.STARTING not in record["metadata"]["annotations"]
    claimed = starts.write(api, "smoke", config("bob", file="of bob"), before["metadata"]["resourceVersion"])
    restored = starts.write(api, "smoke", record, claimed["metadata"]["resourceVersion"], starting=False)
    assert restored["data"] == {"file": "of ada"}
    (again,) = jobs.group([restored], [], [], "team")
    assert jobs.status(again) == jobs.status(found)
    assert (again.start, again.directory) == ("of-ada", "jobs/smoke-of-ada")
    assert starts.record(again) == record


def test_the_record_of_a_run_whose_config_map_is_gone() -> None:
    about = {"name": "smoke", "labels": LABELS, "annotations": {START: "abc"}}
    trained = {"kind": "Job", "metadata": about, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    (found,) = jobs.group([], [trained], [], "team")
    record = starts.record(found)
    assert record["metadata"]["labels"] == LABELS
    assert record["metadata"]["annotations"] == {START: "abc", jobs.STATE: "succeeded"}
    assert starts.record(jobs.Found("smoke", "team")) == {}
