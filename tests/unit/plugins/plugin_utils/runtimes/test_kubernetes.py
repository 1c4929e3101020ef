"""Jobs in pods: from the actions on jobs to the requests that the API server gets, and what a person reads."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_fetch, job_log, job_start, job_status, job_stop
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, volume
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.kubernetes import Kubernetes
from support.api_server import BATCH, REVIEWS, Server, Store, api_server
from support.api_server import TEAM as CORE
from support.checkout import ROOT
from support.kubernetes_jobs import GIVEN
from support.modules import run_action

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


@pytest.mark.slow
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
    assert "its Job was removed while " in found["msg"]
    assert "What this start had created was removed: Service smoke, ConfigMap smoke." in found["msg"]
    assert of_job(store) == []
    assert "Job smoke as Job smoke in namespace team" in capsys.readouterr().out


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_job_that_the_cluster_cannot_take(variables: dict[str, Any], store: Store) -> None:
    for number in range(1, 4):
        del store.there[f"/api/v1/nodes/node{number}"]
    assert "workers: 4 pods of 198 CPUs" in start(variables)["msg"]


def running(store: Store) -> None:
    """Have a Job without pods on the cluster, with its other objects, and one without the collection's mark."""
    for path in (f"{CORE}/configmaps", f"{CORE}/services", f"{BATCH}/jobs"):
        about = {"name": "smoke", "labels": LABELS, "annotations": {"amx.cluster/start": "1f"}}
        store.keep(f"{path}/smoke", {"metadata": about})
    store.keep(f"{BATCH}/jobs/smoke-prepare", {"metadata": {"name": "smoke-prepare", "labels": LABELS}})
    store.keep(f"{CORE}/configmaps/theirs", {"metadata": {"name": "theirs", "labels": {"amx.cluster/job": "smoke"}}})


@pytest.mark.parametrize(
    ("check", "remove", "expected", "ended"),
    [
        (False, False, "job smoke was stopped; removed from namespace team", []),
        (True, False, "job smoke would be stopped; would be removed from namespace team", []),
        (False, True, "job smoke was stopped; removed from namespace team", ["Service smoke", "ConfigMap smoke"]),
    ],
)
def test_a_job_is_stopped(
    variables: dict[str, Any], store: Store, api: Api, check: bool, remove: bool, expected: str, ended: list[str]
) -> None:
    others = dict(store.there)
    running(store)
    before = store.there.keys() - others
    variables["kubernetes_remove"] = remove
    found = run_action(job_stop, {"job": "smoke"}, no_head, check, variables)
    assert (found["text"], found["changed"]) == (expected, True)
    assert found["ended"] == ["Job smoke", "Job smoke-prepare", *ended]
    assert found["note"] == "its files stay on the volume in jobs/smoke-1f"
    stays = before if check else {f"{CORE}/configmaps/theirs"}
    if not check and not remove:
        stays |= {f"{CORE}/configmaps/smoke", f"{CORE}/services/smoke"}
        (after,) = jobs.gather(api, "smoke")
        assert (jobs.status(after)["state"], jobs.status(after)["reason"]) == ("stopped", "it was stopped on request")
        noted = dict(store.there)
        again = run_action(job_stop, {"job": "smoke"}, no_head, check, variables)
        assert (again["text"], again["changed"]) == ("job smoke was not running; removed from namespace team", False)
        assert store.there == noted
    assert store.there.keys() - others == stays


def test_rights_that_are_missing_to_stop_a_job(variables: dict[str, Any], server: Server, store: Store) -> None:
    """train.yml needs no patch: its user may lack that, and would have a job without pods whose objects are left."""

    def review(request: dict[str, Any]) -> Any:
        asked = request["body"]["spec"]["resourceAttributes"]
        return 201, {"status": {"allowed": asked["verb"] != "patch"}}

    server.answers[REVIEWS] = review
    running(store)
    before = dict(store.there)
    said = run_action(job_stop, {"job": "smoke"}, no_head, False, variables)["msg"]
    assert "may not patch configmaps in namespace team, nothing was stopped" in said
    assert store.there == before
    removes = {**variables, "kubernetes_remove": True}
    assert not run_action(job_stop, {"job": "smoke"}, no_head, True, removes).get("failed")


HERE = {"state": "failed", "reason": "", "started": "2026-11-20T13:00:00+00:00", "hosts": 2, "ranks": 4}
GATHERED = {"node0": {"jobs": [{"path": "/opt/jobs/demo", "user": "anna", "status": HERE, "progress": {}}]}}


def test_jobs_on_hosts_and_in_pods_are_one_table(
    variables: dict[str, Any], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    running(store)
    run_action(job_status, {"gathered": GATHERED}, no_head, False, variables)
    assert {tuple(line.split()[:4]) for line in capsys.readouterr().out.splitlines()} >= {
        ("job", "where", "state", "owner"),
        ("smoke", "Job", "in", "team"),
        ("demo", "hosts", "failed", "anna"),
    }
    run_action(job_status, {"gathered": GATHERED, "job": "smoke"}, no_head, False, variables)
    assert "Job smoke in namespace team, started" in capsys.readouterr().out


def test_jobs_on_hosts_and_in_pods_are_one_document(
    variables: dict[str, Any], store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running(store)
    old = {"name": "old", "start": "a", "state": "failed", "started": "1", "ended": "2", "bytes": 9}
    reader = SimpleNamespace(job_directories=lambda: [old])
    monkeypatch.setattr(volume, "reader", lambda *_given: contextlib.nullcontext(reader))
    options = {"gathered": GATHERED, "format": "json", "query": "[jobs[].name, volume[].name]"}
    run_action(job_status, options, no_head, False, {**variables, "kubernetes_volume": True})
    assert json.loads(capsys.readouterr().out) == [["demo", "smoke"], ["old"]]


def test_a_job_on_hosts_and_in_pods_is_the_hosts_one(
    variables: dict[str, Any], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    def having(job: str, on_hosts: bool) -> str:
        module = {"_execute_module": lambda **_options: {"stat": {"exists": on_hosts}}}
        action: Any = SimpleNamespace(_templar=SimpleNamespace(template=lambda value: value), **module)
        return known.having(job, action, variables).name

    running(store)
    assert having("smoke", on_hosts=True) == "hosts"
    assert capsys.readouterr().out.startswith("Job smoke is on the hosts and in namespace team; this is the one on th")
    assert having("smoke", on_hosts=False) == "kubernetes"
    del variables["cluster_kubernetes"]
    assert having("smoke", on_hosts=False) == "hosts", "who says that there is none"


def test_runtimes_are_those_that_launchers_name() -> None:
    assert {runtime.name for runtime in known.RUNTIMES} == {launcher.runtime for launcher in LAUNCHERS.values()}


def test_results_of_a_job_that_has_not_ended(variables: dict[str, Any], store: Store, tmp_path: Path) -> None:
    running(store)
    found = run_action(job_fetch, {"job": "smoke", "results": str(tmp_path / "to")}, no_head, False, variables)
    assert found["msg"] == "job smoke is pending and has no results yet"


@pytest.mark.parametrize(("action", "options"), [(job_log, {}), (job_stop, {}), (job_status, {"gathered": {}})])
def test_a_job_that_is_nowhere(variables: dict[str, Any], store: Store, action: Any, options: dict[str, Any]) -> None:
    running(store)
    found = run_action(action, {"job": "nope", **options}, no_head, False, variables)
    assert found["failed"]
    assert "no job nope was started, neither on a host of the inventory nor in namespace team" in found["msg"]
    assert "smoke (pending)" in found["msg"]


def test_an_api_server_that_is_gone(
    variables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs on hosts are shown all the same."""
    with api_server() as stopped:
        variables["cluster_kubernetes"]["kubeconfig"] = stopped.kubeconfig(tmp_path)
    unknown = f"Jobs on Kubernetes are not known: cannot reach {stopped.url}"
    found = run_action(job_status, {"gathered": GATHERED}, no_head, False, variables)
    assert not found.get("failed"), found
    assert unknown in capsys.readouterr().out
    said = run_action(job_status, {"gathered": {}, "job": "nope"}, no_head, False, variables)["msg"]
    assert said.startswith("no job nope was started on this cluster: ")
    assert said.splitlines()[-1].startswith(unknown)
