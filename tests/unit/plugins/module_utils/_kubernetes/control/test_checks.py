"""What is refused before anything is created: what the API server answers to what is asked of it, and the messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import checks, manifest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from support.api_server import BATCH, REVIEWS, TEAM, Server, api_server, resources, status
from support.checkout import ROOT
from support.kubernetes_jobs import derive, job_of

pytestmark = pytest.mark.slow


SMOKE = ROOT / "jobs/smoke.yml"
GIVEN: dict[str, Any] = {
    "namespace": "team",
    "workers": 2,
    "cpus": 64,
    "memory": "64Gi",
    "pvc": "shared",
    "kind": "PyTorchJob",
    "node_selector": {"pool": "spr"},
}


def node(name: str, cpu: str = "63500m", memory: str = "62Gi", **labels: str) -> dict[str, Any]:
    about = {"name": name, "labels": {"pool": "spr", **labels}}
    return {"metadata": about, "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}}


@pytest.fixture
def server() -> Iterator[Server]:
    """A cluster that takes the job."""
    claim = {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    answers: dict[str, Any] = {
        REVIEWS: (201, {"status": {"allowed": True}}),
        TEAM: {"metadata": {"name": "team"}},
        f"{TEAM}/persistentvolumeclaims/shared": claim,
        "/api/v1/nodes": {"items": [node("a"), node("b")]},
        "/apis/kubeflow.org/v1": resources(PyTorchJob="pytorchjobs"),
        "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs": {"items": []},
        f"{BATCH}/jobs": {"items": []},
        **{f"{TEAM}/{name}": {"items": []} for name in ("services", "configmaps", "secrets", "pods")},
    }
    with api_server(answers) as running:
        yield running


def refused(server: Server, folder: Path, override: dict[str, Any] | None = None, **given: Any) -> list[str]:
    """Return why the smoke job is refused on a cluster."""
    derived = derive(SMOKE, override, **{**GIVEN, **given})
    made = manifest.render(derived, manifest.job_files(derived, job_of(SMOKE), {}))
    found = checks.gather(Api.connect(server.kubeconfig(folder), namespace="team"), derived, made)
    return checks.refusals(derived, found, "test")


def test_a_cluster_that_takes_the_job(server: Server, tmp_path: Path) -> None:
    assert refused(server, tmp_path) == []
    written = [one for one in server.requests if one["method"] != "GET" and one["path"] != REVIEWS]
    assert written == [], "a check has changed something"


def test_all_reasons_come_at_once(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = {"items": []}
    del server.answers["/apis/kubeflow.org/v1"]
    del server.answers[f"{TEAM}/persistentvolumeclaims/shared"]
    kind, claim, nodes = refused(server, tmp_path)
    assert kind.startswith("kind: the cluster has no PyTorchJob: install Kubeflow's training operator: kubectl apply")
    assert claim.startswith("pvc: namespace team has no claim shared: create it, or leave pvc out")
    assert nodes.startswith("none of 0 nodes has the labels pool=spr")


def test_an_indexed_job_on_an_old_server(server: Server, tmp_path: Path) -> None:
    server.answers["/version"] = {"gitVersion": "v1.20.2"}
    (reason,) = refused(server, tmp_path, kind="Job")
    assert reason.startswith("kind: Job needs Kubernetes 1.24 or later, and the server has 1.20: set kind in cluster")
    server.answers["/version"] = {"gitVersion": "v0.0.0-master"}
    assert refused(server, tmp_path, kind="Job") == [], "a build without a version is not refused"


def test_a_server_without_the_trainer(server: Server, tmp_path: Path) -> None:
    (reason,) = refused(server, tmp_path, kind="TrainJob")
    assert reason.startswith("kind: the cluster has no TrainJob and no TrainingRuntime: install Kubeflow Trainer")


def test_missing_rights_are_one_message(server: Server, tmp_path: Path) -> None:
    def review(request: dict[str, Any]) -> Any:
        asked = request["body"]["spec"]["resourceAttributes"]
        forbidden = (asked["resource"], asked["subresource"]) in (("pods", "exec"), ("pytorchjobs", ""))
        forbidden |= (asked["verb"], asked["resource"]) == ("create", "configmaps")
        return 201, {"status": {"allowed": not forbidden}}

    server.answers[REVIEWS] = review
    (reason,) = refused(server, tmp_path)
    assert reason == (
        "the user of context test may not, in namespace team: create configmaps; get, list, create, delete "
        "pytorchjobs.kubeflow.org; get, create pods/exec: have an administrator apply roles/manifest/files/rbac.yml "
        "with your name"
    )
    asked = [one["body"]["spec"]["resourceAttributes"] for one in server.requests if one["path"] == REVIEWS]
    assert {one["namespace"] for one in asked} == {"team"}


def test_a_job_with_secrets_needs_rights_on_secrets(tmp_path: Path) -> None:
    names = {("v1", "ConfigMap"): "configmaps", ("v1", "Secret"): "secrets"}
    with_secret = derive(SMOKE, {"env_from": ["HF_TOKEN"]}, **GIVEN)
    assert ("create", "secrets") in checks.rights(with_secret, [], names)
    assert ("create", "secrets") not in checks.rights(derive(SMOKE, **GIVEN), [], names)


def test_nodes_that_may_not_be_listed(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = status(403, "nodes is forbidden")
    derived = derive(SMOKE, **GIVEN)
    found = checks.gather(Api.connect(server.kubeconfig(tmp_path), namespace="team"), derived, [])
    assert checks.refusals(derived, found) == []
    assert checks.notes(found) == ["this user may not list nodes: whether a pod fits one is not checked"]


def test_nodes_that_are_too_small(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = {"items": [node("a", "31500m"), node("b", memory="30Gi"), node("c", pool="gpu")]}
    (reason,) = refused(server, tmp_path)
    assert reason.startswith(
        "a pod requests 63 CPUs and 59568Mi of memory, more than any node can allocate: a has 31500m CPUs and 62Gi of "
        "memory; b has 63500m CPUs and 30Gi of memory: set cpus and memory in cluster_kubernetes"
    )


def test_too_few_nodes(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = {"items": [node("a"), node("b", "8")]}
    (reason,) = refused(server, tmp_path)
    assert reason.startswith("workers: 2 pods of 63 CPUs and 59568Mi of memory, and nodes can take 1 (a 1): set hosts")
    assert refused(server, tmp_path, {"hosts": 1}) == []
    assert refused(server, tmp_path, {"min_hosts": 1}) == [], "it can go on with one"


def test_claims(server: Server, tmp_path: Path) -> None:
    place = f"{TEAM}/persistentvolumeclaims/shared"
    server.answers[place] = {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    (reason,) = refused(server, tmp_path)
    assert reason.startswith("pvc: shared has the access mode ReadWriteOnce, and 2 pods on several nodes share it")
    assert refused(server, tmp_path, {"hosts": 1}) == []
    server.answers[place] = {**server.answers[place], "status": {"phase": "Lost"}}
    (reason,) = refused(server, tmp_path, {"hosts": 1})
    assert reason.startswith("pvc: the volume of shared is lost")


def test_namespace_and_secret_of_the_registry(server: Server, tmp_path: Path) -> None:
    (reason,) = refused(server, tmp_path, image_pull_secret="registry")
    assert reason.startswith("image_pull_secret: namespace team has no Secret registry: kubectl create secret docker-")
    del server.answers[TEAM]
    (reason,) = refused(server, tmp_path)
    assert reason.startswith("namespace: the cluster has no team: kubectl create namespace team, or set create_names")
    assert refused(server, tmp_path, create_namespace=True, pvc="shared") == []


BY_ADA = {"amx.cluster/user": "ada", "amx.cluster/since": "2026-11-22T11:59:00+00:00"}


def trains(state: str = "", **annotations: str) -> dict[str, Any]:
    labels = {"amx.cluster/job": "smoke", "app.kubernetes.io/managed-by": "amx.cluster"}
    conditions = [{"type": state, "status": "True"}] if state else []
    about = {"name": "smoke", "labels": labels, "annotations": annotations, "creationTimestamp": "2026-11-22T12:00:00Z"}
    return {"metadata": about, "status": {"conditions": conditions}}


def test_the_same_job_is_running(server: Server, tmp_path: Path) -> None:
    jobs = "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs"
    server.answers[jobs] = {"items": [trains(**BY_ADA)]}
    (reason,) = refused(server, tmp_path)
    logs, stop = (f"playbooks/{name}.yml -e job=smoke" for name in ("logs", "stop"))
    assert reason == (
        f"job smoke is running since 2026-11-22T11:59:00+00:00, started by ada: follow it ({logs}), wait for its end, "
        f"stop it ({stop}), or give this job another name"
    )
    (reason,) = refused(server, tmp_path, kind="Job")
    assert reason.startswith("job smoke is running since"), "of another kind"
    server.answers[jobs] = {"items": [trains("Failed", **BY_ADA)]}
    assert refused(server, tmp_path) == [], "it has ended"


def test_the_same_job_is_being_started(server: Server, tmp_path: Path) -> None:
    config = trains(**BY_ADA, **{"amx.cluster/starting": datetime.now(timezone.utc).isoformat()})
    server.answers[f"{TEAM}/configmaps"] = {"items": [config]}
    (reason,) = refused(server, tmp_path)
    assert reason == (
        "job smoke is being started since 2026-11-22T11:59:00+00:00, started by ada: wait until it runs, or, if that "
        "start was interrupted, end it (playbooks/stop.yml -e job=smoke)"
    )
    config["metadata"]["annotations"]["amx.cluster/starting"] = "2026-11-22T11:59:00+00:00"
    assert refused(server, tmp_path) == [], "a start that was interrupted long ago"


def test_only_objects_of_the_collection_are_those_of_a_previous_start(server: Server, tmp_path: Path) -> None:
    assert refused(server, tmp_path) == []
    selectors = [one["query"]["labelSelector"] for one in server.requests if "labelSelector" in one["query"]]
    assert set(selectors) == {"amx.cluster/job=smoke,app.kubernetes.io/managed-by=amx.cluster"}
    server.answers[f"{TEAM}/configmaps/smoke"] = {"metadata": {"name": "smoke", "labels": {"amx.cluster/job": "smoke"}}}
    (reason,) = refused(server, tmp_path)
    assert reason.startswith("ConfigMap smoke in namespace team is not of a job of the collection"), (
        "labelled by others"
    )


def test_the_same_job_prepares_its_data(server: Server, tmp_path: Path) -> None:
    prepares = trains(**BY_ADA)
    prepares["metadata"]["name"] = "smoke-prepare"
    server.answers[f"{BATCH}/jobs"] = {"items": [prepares]}
    (reason,) = refused(server, tmp_path)
    assert reason.startswith("job smoke prepares its data since 2026-11-22T11:59:00+00:00, started by ada: follow it")
    prepares["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    assert refused(server, tmp_path) == [], "whoever started it has left"


def test_another_job_with_the_same_objects(server: Server, tmp_path: Path) -> None:
    config = {**trains(), "data": {"job.json": '{"job": {"name": "smo.ke"}, "settings": {}}'}}
    server.answers[f"{TEAM}/configmaps"] = {"items": [config]}
    (reason,) = refused(server, tmp_path)
    assert reason == (
        "job smo.ke has the objects smoke in namespace team, and so would job smoke: give this job another name, or "
        "remove those (playbooks/stop.yml -e job=smo.ke -e remove=true)"
    )
    config["data"] = {"job.json": '{"job": {"name": "smoke"}, "settings": {}}'}
    assert refused(server, tmp_path) == [], "an earlier start of the same job"


def test_an_object_of_another_origin(server: Server, tmp_path: Path) -> None:
    server.answers[f"{TEAM}/configmaps/smoke"] = {"metadata": {"name": "smoke", "labels": {}}}
    (reason,) = refused(server, tmp_path)
    assert reason == ("ConfigMap smoke in namespace team is not of a job of the collection: give this job another name")
