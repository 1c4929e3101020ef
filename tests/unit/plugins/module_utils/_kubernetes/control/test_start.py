"""Of several starts of a job at the same time one is first, and one that fails loses nothing of the previous run."""

from __future__ import annotations

import re
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, kinds, manifest, start
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.following import Follower
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    BY_USER,
    JOB_LABEL,
    MANAGED_BY,
    MANAGER,
    SINCE,
    START,
)
from support.api_server import BATCH, TEAM, Server, Store, status
from support.checkout import ROOT
from support.kubernetes_jobs import derive, job_of

pytestmark = pytest.mark.slow


CONFIGS = f"{TEAM}/configmaps"
SMOKE = f"{CONFIGS}/smoke"
LABELS = {MANAGED_BY: MANAGER, JOB_LABEL: "smoke"}


def config(user: str, **data: str) -> dict[str, Any]:
    notes = {START: f"of-{user}", BY_USER: user, SINCE: "2026-11-22T12:00:00+00:00"}
    about = {"name": "smoke", "namespace": "team", "labels": LABELS, "annotations": notes}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


@pytest.mark.parametrize("previous", [False, True])
def test_one_of_several_starts_at_the_same_time_is_first(api: Api, store: Store, previous: bool) -> None:
    """Their checks have all seen the same: no ConfigMap, or that of the previous run."""
    version = (
        start.write(api, "smoke", config("before"), starting=False)["metadata"]["resourceVersion"] if previous else ""
    )
    outcomes = dict[str, str]()

    def begin(user: str) -> None:
        try:
            start.write(api, "smoke", config(user, file=user), version)
            outcomes[user] = ""
        except ValueError as error:
            outcomes[user] = str(error)

    users = ["ada", "bob", "cyd", "dee"]
    threads = [threading.Thread(target=begin, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [user for user in users if not outcomes[user]]
    assert store.there[SMOKE]["data"] == {"file": winner}
    assert store.there[SMOKE]["metadata"]["annotations"][START] == f"of-{winner}"
    refused = (
        f"job smoke was started by {winner} at the same time (since 2026-11-22T12:00:00+00:00), and that start was "
        "first: follow it (playbooks/logs.yml -e job=smoke), or give this job another name"
    )
    assert {outcomes[user] for user in users if user != winner} == {refused}


def test_a_start_is_marked_until_what_trains_is_created(api: Api, store: Store) -> None:
    made = start.write(api, "smoke", config("ada"))
    assert jobs.is_starting(made)
    (found,) = jobs.group([made], "team")
    assert jobs.status(found)["state"] == "pending"
    assert jobs.status(found)["reason"] == "it is being started"
    version = made["metadata"]["resourceVersion"]
    renewed = start.write(api, "smoke", config("ada"), version)
    done = start.write(api, "smoke", config("ada"), renewed["metadata"]["resourceVersion"], starting=False)
    assert not jobs.is_starting(done)
    assert jobs.STARTING not in store.there[SMOKE]["metadata"]["annotations"]


def test_a_start_that_was_interrupted_counts_for_a_while(api: Api) -> None:
    notes = {jobs.STARTING: "2026-11-22T12:00:00+00:00"}
    made = {"metadata": {"annotations": notes}}
    began = datetime.fromisoformat(notes[jobs.STARTING])
    assert jobs.is_starting(made, began.replace(minute=9))
    assert not jobs.is_starting(made, began.replace(minute=10))
    assert not jobs.is_starting({"metadata": {"annotations": {**notes, jobs.STATE: "stopped"}}}, began)
    assert not jobs.is_starting({"metadata": {"annotations": {jobs.STARTING: "soon"}}}, began)


def test_a_start_that_was_stopped_or_removed_meanwhile(api: Api, store: Store) -> None:
    made = start.write(api, "smoke", config("ada"))
    version = made["metadata"]["resourceVersion"]
    notes = {**made["metadata"]["annotations"], jobs.STATE: "stopped"}
    store.keep(SMOKE, {**made, "metadata": {**made["metadata"], "annotations": notes}})
    with pytest.raises(ValueError, match=r"^job smoke was stopped during this start: ConfigMap smoke says so$"):
        start.write(api, "smoke", config("ada"), version)
    store.there.clear()
    expected = "job smoke: its ConfigMap smoke was removed from namespace team during this start"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        start.write(api, "smoke", config("ada"), version)


def test_what_is_refused_for_another_reason_is_not_called_a_conflict(api: Api, server: Server) -> None:
    server.answers[CONFIGS] = status(403, "exceeded quota")
    with pytest.raises(ValueError, match=r"^exceeded quota$"):
        start.write(api, "smoke", config("ada"))


def test_the_record_of_a_run_whose_config_map_is_gone() -> None:
    about = {"name": "smoke", "labels": LABELS, "annotations": {START: "abc"}}
    trained = {"kind": "Job", "metadata": about, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    (found,) = jobs.group([trained], "team")
    record = start.record(found)
    assert record["metadata"]["labels"] == LABELS
    assert record["metadata"]["annotations"] == {START: "abc", jobs.STATE: "succeeded"}
    assert start.record(jobs.JobInPods("smoke", "team")) == {}


# The transaction


class Waits:
    """Stands in for the follower: the pods run at once, or not at all. prepared: called while data are prepared."""

    def __init__(self, prepared: str = "", running: str = "") -> None:
        self.prepared, self.running = prepared, running

    def until_prepared(self) -> None:
        if self.prepared:
            raise ValueError(self.prepared)

    def until_running(self) -> None:
        if self.running:
            raise ValueError(self.running)


def planned(api: Api, store: Store, job: Path = ROOT / "jobs/smoke.yml") -> start.Plan:
    """Return the plan of the smoke job, whose data are prepared first, after what there is on the cluster."""
    derived = derive(job, kind="Job", namespace="team")
    made = manifest.render(derived, manifest.job_files(derived, job_of(job), {}))
    own = [one for one in made if one["kind"] not in kinds.SHARED]
    earlier = jobs.everything(api, "smoke")
    previous = next(iter(jobs.group(earlier, "team")), None)
    return start.Plan(
        derived,
        own[0],
        previous.config["metadata"]["resourceVersion"] if previous else "",
        start.record(previous) if previous else {},
        [one for one in made if one["kind"] in kinds.SHARED],
        [one for one in jobs.removable(earlier, "smoke") if one["kind"] != "ConfigMap"],
        own[1],
        own[2:],
    )


def run(api: Api, plan: start.Plan, waits: Waits, secret: bool = True) -> None:
    about = {"name": "smoke-env", "labels": LABELS}
    values = {"apiVersion": "v1", "kind": "Secret", "metadata": about} if secret else None
    start.Transaction(api, "smoke", plan).run(values, cast(Follower, waits))


def there(store: Store) -> list[str]:
    return ["/".join(path.split("/")[-2:]) for path in store.there]


CLAIM = "persistentvolumeclaims/amx-cluster"
ALL = [CLAIM, "configmaps/smoke", "secrets/smoke-env", "jobs/smoke-prepare", "services/smoke", "jobs/smoke"]


def test_what_trains_is_created_last(api: Api, store: Store) -> None:
    run(api, planned(api, store), Waits())
    assert there(store) == ALL
    assert jobs.STARTING not in store.there[SMOKE]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("waits", "removed"),
    [
        (Waits(prepared="no space"), "Job smoke-prepare, Secret smoke-env, ConfigMap smoke"),
        (Waits(running="no image"), "Job smoke, Service smoke, Job smoke-prepare, Secret smoke-env, ConfigMap smoke"),
    ],
)
def test_what_was_created_is_removed_the_last_first(api: Api, store: Store, waits: Waits, removed: str) -> None:
    """But for the claim, in which another job may have begun meanwhile."""
    with pytest.raises(ValueError, match=r"no (space|image)") as failed:
        run(api, planned(api, store), waits)
    assert there(store) == [CLAIM]
    assert str(failed.value).splitlines()[1:] == [
        f"What this start had created was removed: {removed}.",
        "What other jobs may use stays: PersistentVolumeClaim.",
    ]


def test_objects_of_another_start_stay(api: Api, store: Store) -> None:
    """It was first, so that the claim is refused; or it has made an object meanwhile (409)."""
    plan = planned(api, store)
    start.write(api, "smoke", config("ada"))
    with pytest.raises(ValueError, match="was started by ada at the same time") as failed:
        run(api, plan, Waits())
    assert "was removed" not in str(failed.value)
    assert there(store) == ["configmaps/smoke", CLAIM]
    store.there.clear()
    store.keep(f"{TEAM}/services/smoke", {"metadata": {"name": "smoke"}})
    with pytest.raises(
        ValueError, match="already exists\nWhat this start had created was removed: Job smoke-prepare, "
    ):
        run(api, plan, Waits())
    assert there(store) == ["services/smoke", CLAIM]


def test_an_object_that_was_replaced_meanwhile_stays(api: Api, store: Store) -> None:
    class Replaced(Waits):
        def until_running(self) -> None:
            store.keep(f"{BATCH}/jobs/smoke", {"metadata": {"name": "smoke", "uid": "of another start"}})
            raise ValueError("no image")

    with pytest.raises(ValueError, match="no image") as failed:
        run(api, planned(api, store), Replaced())
    assert there(store) == [CLAIM, "jobs/smoke"]
    assert "removed: Service smoke" in str(failed.value)


def test_a_start_that_fails_restores_the_previous_run(api: Api, store: Store) -> None:
    """Its ConfigMap says in which directory of the volume it was, and how it ended; nothing else of it is kept."""
    before = start.write(api, "smoke", config("ada", file="of ada"), starting=False)
    conditions = [{"type": "Failed", "status": "True", "message": "loss is nan"}]
    ended = {"conditions": conditions, "completionTime": "2026-11-22T12:05:00Z"}
    trained = {"metadata": {"name": "smoke", "labels": LABELS, "annotations": {START: "of-ada"}}, "status": ended}
    store.keep(f"{BATCH}/jobs/smoke", trained)
    (found,) = jobs.gather(api, "smoke")
    plan = planned(api, store)
    with pytest.raises(ValueError, match="no image") as failed:
        run(api, plan, Waits(running="no image"))
    assert "Its previous run is kept: playbooks/results.yml -e job=smoke fetches its results." in str(failed.value)
    assert there(store) == ["configmaps/smoke", CLAIM]
    (again,) = jobs.gather(api, "smoke")
    assert (again.config["data"], again.start, again.directory) == (before["data"], "of-ada", "jobs/smoke-of-ada")
    assert jobs.status(again) == jobs.status(found)
    assert jobs.status(again)["reason"] == "failed: loss is nan", jobs.status(again)
    assert jobs.STARTING not in again.config["metadata"]["annotations"]
    assert start.record(again) == plan.record


def test_what_cannot_be_removed_is_named(api: Api, store: Store, server: Server) -> None:
    class Refused(Waits):
        def until_running(self) -> None:
            server.answers[f"{TEAM}/services/smoke"] = status(403, "you may not delete services")
            raise ValueError("no image")

    with pytest.raises(ValueError, match="no image") as failed:
        run(api, planned(api, store), Refused(), secret=False)
    assert "Could not be removed: you may not delete services" in str(failed.value)
    assert there(store) == [CLAIM, "services/smoke"]


def test_nothing_of_a_previous_run_is_removed_before_the_start_is_claimed(api: Api, store: Store) -> None:
    start.write(api, "smoke", config("ada"), starting=False)
    store.keep(f"{BATCH}/jobs/smoke", {"metadata": {"name": "smoke", "labels": LABELS}})
    plan = planned(api, store)
    start.write(api, "smoke", config("bob"), plan.version)
    with pytest.raises(ValueError, match="was started by bob at the same time"):
        run(api, plan, Waits())
    assert "jobs/smoke" in there(store)


def test_a_claim_that_was_lost_while_data_were_prepared(api: Api, store: Store) -> None:
    class Claimed(Waits):
        def until_prepared(self) -> None:
            store.keep(SMOKE, config("eve"))

    with pytest.raises(ValueError, match="was started by eve at the same time"):
        run(api, planned(api, store), Claimed())
    assert "jobs/smoke" not in there(store), "it trains only for the start that has the claim"
