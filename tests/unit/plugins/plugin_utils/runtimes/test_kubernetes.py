"""Jobs in pods: from the actions on jobs to the requests that the API server gets, and what a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_log, job_start, job_status, job_stop
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.kubernetes import Kubernetes
from support.api_server import Server, Store, api_server
from support.checkout import ROOT
from support.kubernetes_jobs import GIVEN
from support.modules import run_action

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CORE, BATCH = "/api/v1/namespaces/team", "/apis/batch/v1/namespaces/team"
LABELS = {"amx.cluster/job": "smoke", "app.kubernetes.io/managed-by": "amx.cluster"}
AMX = {"feature.node.kubernetes.io/cpu-cpuid.AMXBF16": "true"}


@pytest.fixture
def store() -> Store:
    """A cluster of four nodes that have AMX, with a volume."""
    made = Store()
    claim = {"metadata": {"name": "amx-cluster"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    made.keep(f"{CORE}/persistentvolumeclaims/amx-cluster", claim)
    for number in range(4):
        node = {"name": f"node{number}", "labels": AMX}
        amounts = {"cpu": "199", "memory": "128Gi"}
        made.keep(f"/api/v1/nodes/node{number}", {"metadata": node, "status": {"allocatable": amounts}})
    made.keep("/api/v1/namespaces/team", {"metadata": {"name": "team"}})
    return made


@pytest.fixture
def server(store: Store) -> Iterator[Server]:
    with api_server({REVIEWS: (201, {"status": {"allowed": True}})}) as running:
        running.others = store.answer
        yield running


@pytest.fixture
def variables(server: Server, tmp_path: Path) -> dict[str, Any]:
    cluster = {**GIVEN, "namespace": "team", "kubeconfig": server.kubeconfig(tmp_path)}
    return {"cluster_kubernetes": cluster, "cluster_stack": "native", "job_prefix": "/opt", "job_hosts": ["localhost"]}


def no_head(**_options: Any) -> dict[str, Any]:
    """Answer as a head on which no job was ever started."""
    return {"stat": {"exists": False}}


def start(variables: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    job = replace(load(ROOT / "jobs/smoke.yml", {"launcher": "kubernetes"}), prepare=None)
    settings = {"head": "node0", "head_address": "10.0.0.1", "user": "ada", "since": "2026-11-22T12:00:00+00:00"}
    given = {"run": {"job": job.to_json(), "settings": settings}, "shows_results": False}
    return run_action(job_start, given, no_head, check, variables)


def of_job(store: Store) -> list[str]:
    return ["/".join(path.split("/")[-2:]) for path in store.there if path.endswith("smoke")]


def test_a_job_is_started(
    variables: dict[str, Any], store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody deletes its Job before its pods come, so that all is undone."""
    created = list[str]()

    def deleted(_seconds: float) -> None:
        created.extend(of_job(store))
        store.there.pop(f"{BATCH}/jobs/smoke", None)

    monkeypatch.setattr("time.sleep", deleted)
    found = start(variables)
    assert created == ["configmaps/smoke", "services/smoke", "jobs/smoke"]
    assert found["failed"], found
    assert "its Job was removed while its pods were starting" in found["msg"]
    assert "What this start had created was removed: Service smoke, ConfigMap smoke." in found["msg"]
    assert of_job(store) == []
    assert "Job smoke as Job smoke in namespace team" in capsys.readouterr().out


def test_a_job_is_planned_in_check_mode(
    variables: dict[str, Any], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not start(variables, check=True).get("failed")
    assert of_job(store) == []
    assert "198 of 200 CPUs" in capsys.readouterr().out


def test_a_stack_of_the_inventory_is_merged_into_the_catalogue(variables: dict[str, Any]) -> None:
    """Only what it names is changed, however deep."""
    action: Any = SimpleNamespace(_templar=SimpleNamespace(template=lambda value: value))
    plain = Kubernetes(action, variables).stack
    changed = {"native": {"packages": {"accelerate": "0.0.1"}}}
    merged = Kubernetes(action, {**variables, "torch_stack_catalogue": changed}).stack
    assert merged == {**plain, "packages": {**plain["packages"], "accelerate": "0.0.1"}}


def test_a_job_that_the_cluster_cannot_take(variables: dict[str, Any], store: Store) -> None:
    for number in range(1, 4):
        del store.there[f"/api/v1/nodes/node{number}"]
    assert "workers: 4 pods of 198 CPUs" in start(variables)["msg"]


def running(store: Store) -> None:
    """Have a Job without pods on the cluster."""
    for path in (f"{CORE}/configmaps/smoke", f"{BATCH}/jobs/smoke"):
        store.keep(path, {"metadata": {"name": "smoke", "labels": LABELS, "annotations": {"amx.cluster/start": "1f"}}})


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (False, "job smoke was stopped; removed from namespace team"),
        (True, "job smoke would be stopped; would be removed from namespace team"),
    ],
)
def test_a_job_is_stopped(variables: dict[str, Any], store: Store, check: bool, expected: str) -> None:
    running(store)
    found = run_action(job_stop, {"job": "smoke"}, no_head, check, variables)
    assert (found["text"], found["ended"], found["changed"]) == (expected, ["Job smoke"], True)
    assert found["note"] == "its files stay on the volume in jobs/smoke-1f"
    assert of_job(store) == (["configmaps/smoke", "jobs/smoke"] if check else ["configmaps/smoke"])
    if not check:
        again = run_action(job_stop, {"job": "smoke"}, no_head, check, variables)
        assert (again["text"], again["changed"]) == ("job smoke was not running; removed from namespace team", False)


def test_jobs_on_hosts_and_in_pods_are_one_table(
    variables: dict[str, Any], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    running(store)
    seen: dict[str, Any] = {"jobs": [], "ranks": []}
    run_action(job_status, {"gathered": {"localhost": seen}}, no_head, False, variables)
    assert "Job in team" in capsys.readouterr().out
    run_action(job_status, {"gathered": {"localhost": seen}, "job": "smoke"}, no_head, False, variables)
    assert "Job smoke in namespace team, started" in capsys.readouterr().out


@pytest.mark.parametrize("action", [job_log, job_stop])
def test_a_job_that_is_nowhere(variables: dict[str, Any], store: Store, action: Any) -> None:
    running(store)
    found = run_action(action, {"job": "nope"}, no_head, False, variables)
    assert found["failed"]
    assert "no job nope was started, neither on a host of the inventory nor in namespace team" in found["msg"]
    assert "smoke (pending)" in found["msg"]


def test_an_api_server_that_is_gone(
    variables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs on hosts are shown all the same."""
    with api_server() as stopped:
        variables["cluster_kubernetes"]["kubeconfig"] = stopped.kubeconfig(tmp_path)
    found = run_action(job_status, {"gathered": {"localhost": {"jobs": [], "ranks": []}}}, no_head, False, variables)
    assert not found.get("failed"), found
    assert f"Jobs on Kubernetes are not known: cannot reach {stopped.url}" in capsys.readouterr().out
