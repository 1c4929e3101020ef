"""A job that is stopped: what a user may not do is known before, and what is deleted is the job's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, stop
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from support.api_server import Server, Store, api_server

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CORE, BATCH = "/api/v1/namespaces/team", "/apis/batch/v1/namespaces/team"
LABELS = {"amx.cluster/job": "demo", "app.kubernetes.io/managed-by": "amx.cluster"}


@pytest.fixture
def store() -> Store:
    made = Store()
    for path in (
        f"{CORE}/configmaps/demo",
        f"{CORE}/services/demo",
        f"{BATCH}/jobs/demo",
        f"{BATCH}/jobs/demo-prepare",
    ):
        made.keep(path, {"metadata": {"name": path.rpartition("/")[2], "labels": LABELS}})
    made.keep(f"{CORE}/configmaps/theirs", {"metadata": {"name": "theirs", "labels": {"amx.cluster/job": "demo"}}})
    return made


@pytest.fixture
def server(store: Store) -> Iterator[Server]:
    with api_server({REVIEWS: (201, {"status": {"allowed": True}})}) as running:
        running.others = store.answer
        yield running


@pytest.fixture
def api(server: Server, tmp_path: Path) -> Api:
    return Api.connect(server.kubeconfig(tmp_path), namespace="team")


def names(what: stop.Stop) -> list[str]:
    return [f"{one['kind']} {one['metadata']['name']}" for one in what.objects]


def test_rights_that_are_missing(api: Api, server: Server, store: Store) -> None:
    """train.yml needs no patch: its user may lack that, and would have a job without pods whose objects are left."""

    def review(request: dict[str, Any]) -> Any:
        asked = request["body"]["spec"]["resourceAttributes"]
        return 201, {"status": {"allowed": asked["verb"] != "patch"}}

    server.answers[REVIEWS] = review
    (found,) = jobs.gather(api, "demo")
    stop.plan(api, found, remove=True)
    before = dict(store.there)
    with pytest.raises(ValueError, match="may not patch configmaps in namespace team, nothing was stopped"):
        stop.plan(api, found, remove=False)
    assert store.there == before


def test_what_runs_pods_is_deleted_and_the_end_is_noted(api: Api, store: Store) -> None:
    (found,) = jobs.gather(api, "demo")
    what = stop.plan(api, found, remove=False)
    assert (what.was_running, names(what)) == (True, ["Job demo", "Job demo-prepare"])
    stop.run(api, what, 1, lambda _text: None)
    (after,) = jobs.gather(api, "demo")
    assert (jobs.status(after)["state"], jobs.status(after)["reason"]) == ("stopped", "it was stopped on request")
    again = stop.plan(api, after, remove=False)
    assert (again.was_running, names(again), again.notes) == (False, [], False)


def test_every_object_of_a_job_is_removed(api: Api, store: Store) -> None:
    (found,) = jobs.gather(api, "demo")
    what = stop.plan(api, found, remove=True)
    assert names(what) == ["Job demo", "Job demo-prepare", "Service demo", "ConfigMap demo"]
    stop.run(api, what, 1, lambda _text: None)
    assert list(store.there) == [f"{CORE}/configmaps/theirs"], "it has not the mark of the collection"
