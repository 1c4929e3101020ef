"""Results that become a run of an MLflow server: once, complete, and with a remedy where that cannot be."""

from __future__ import annotations

import base64
import platform
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import curves, mlflow_run
from support import curves_results, mlflow_server


@pytest.fixture
def server() -> Iterator[tuple[str, mlflow_server.Store]]:
    with mlflow_server.running() as made:
        yield made


@pytest.mark.slow
def test_a_run(tmp_path: Path, server: tuple[str, mlflow_server.Store]) -> None:
    uri, store = server
    done = mlflow_run.upload(mlflow_run.check({mlflow_run.URI: f"{uri}/"}), curves_results.write(tmp_path / "demo"))
    assert (done.made, done.url) == (True, f"{uri}/#/experiments/1/runs/run0")
    assert store.experiments == {"demo": "1"}
    (run,) = store.runs.values()
    assert (run["status"], run["end_time"] - run["start_time"]) == ("FINISHED", 600_000)
    assert {entry["key"]: entry["value"] for entry in run["params"]} == {
        "learning_rate": "0.001",
        "targets": "['q', 'v']",
        "long": "x" * 250,
    }
    assert run["tags"].pop(mlflow_run.BY).startswith(f"{platform.node()} ")
    assert run["tags"] == {
        **{"amx_cluster.start": "s1", "amx_cluster.complete": "true", "job": "demo", "state": "succeeded"},
        **{"hosts": "2", "ranks": "4", "restarts": "1", "seconds": "600.0"},
        **{"precision": "bf16", "stack": "native", "backend": "mpi"},
    }
    ended = run["end_time"]
    assert [(entry["step"], entry["key"], entry["value"], entry["timestamp"]) for entry in run["metrics"]] == [
        (1, "a _b_", "NaN", 2500),
        (1, "loss", 3.0, 2500),
        (2, "a _b_", "NaN", 3500),
        (2, "loss", 2.0, 3500),
        (3, "a _b_", "NaN", 4500),
        (3, "eval_loss", 1.5, ended),
        (3, "loss", 1.0, 4500),
    ]


@pytest.mark.slow
def test_a_second_upload_changes_nothing(tmp_path: Path, server: tuple[str, mlflow_server.Store]) -> None:
    uri, store = server
    results = curves_results.write(tmp_path / "demo", points=1200)
    made = mlflow_run.Server({mlflow_run.URI: uri})
    first = mlflow_run.upload(made, results, "mine")
    assert len(store.runs["run0"]["metrics"]) == 2401
    again = mlflow_run.upload(made, results, "mine")
    assert (again.run, again.made) == (first.run, False)
    assert len(store.runs["run0"]["metrics"]) == 2401
    assert list(store.runs) == ["run0"]
    assert list(store.experiments) == ["mine"]


@pytest.mark.slow
def test_an_upload_that_was_interrupted_is_replaced(tmp_path: Path, server: tuple[str, mlflow_server.Store]) -> None:
    uri, store = server
    results = curves_results.write(tmp_path / "demo")
    made = mlflow_run.Server({mlflow_run.URI: uri})
    store.fails = "runs/update"
    error = f"upload=mlflow: {uri} answered runs/update with HTTP 500: the disk is full"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        mlflow_run.upload(made, results)
    assert mlflow_run.upload(made, results).made
    assert [run["deleted"] for run in store.runs.values()] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize(("state", "status"), [("failed", "FAILED"), ("stopped", "KILLED"), ("lost", "FAILED")])
def test_states(tmp_path: Path, server: tuple[str, mlflow_server.Store], state: str, status: str) -> None:
    uri, store = server
    mlflow_run.upload(mlflow_run.Server({mlflow_run.URI: uri}), curves_results.write(tmp_path / "demo", state=state))
    assert store.runs["run0"]["status"] == status


def test_further_trainers_of_a_script_have_names_of_their_own() -> None:
    points = {number: [curves.Point(1, 0.0, {"loss": float(number)})] for number in (0, 1)}
    found = mlflow_run.metrics({"metrics": {}}, points, 0)
    assert {entry["key"]: entry["value"] for entry in found} == {"loss": 0.0, "2/loss": 1.0}


@pytest.mark.parametrize(
    ("environ", "error"),
    [
        ({}, "MLFLOW_TRACKING_URI is not set on the control node: set it to the address of a server, as in "),
        ({"MLFLOW_TRACKING_URI": "file:/tmp/runs"}, "MLFLOW_TRACKING_URI is 'file:/tmp/runs' on the control node: "),
        (
            {"MLFLOW_TRACKING_URI": "http://me:secret@127.0.0.1:1"},
            "http://***@127.0.0.1:1 does not answer as an MLflow server ([Errno 111] Connection refused): correct ",
        ),
        ({"MLFLOW_TRACKING_URI": "{uri}/other"}, "{uri}/other answered experiments/search with HTTP 404"),
        (
            {"MLFLOW_TRACKING_URI": "{uri}", "MLFLOW_TRACKING_TOKEN": "wrong"},
            "{uri} answered experiments/search with HTTP 401: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME ",
        ),
    ],
)
def test_refusals(server: tuple[str, mlflow_server.Store], environ: dict[str, str], error: str) -> None:
    uri, store = server
    store.token = "Bearer right" if "TOKEN" in str(environ) else ""
    with pytest.raises(ValueError) as raised:
        mlflow_run.check({name: value.format(uri=uri) for name, value in environ.items()})
    assert str(raised.value).startswith(f"upload=mlflow: {error.format(uri=uri)}")


@pytest.mark.parametrize(
    ("environ", "header"),
    [
        ({"MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t"),
        ({"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic " + "bWU6cA=="),
        ({"MLFLOW_TRACKING_URI": "http://me:p%40@{address}"}, f"Basic {base64.b64encode(b'me:p@').decode()}"),
    ],
)
def test_credentials(server: tuple[str, mlflow_server.Store], environ: dict[str, str], header: str) -> None:
    uri, store = server
    store.token = header
    given = {name: value.format(address=uri.partition("//")[2]) for name, value in environ.items()}
    mlflow_run.check({mlflow_run.URI: uri, **given})


def test_results_that_were_not_fetched(tmp_path: Path, server: tuple[str, mlflow_server.Store]) -> None:
    with pytest.raises(ValueError, match=r"has no results of a job: fetch them first$"):
        mlflow_run.upload(mlflow_run.Server({mlflow_run.URI: server[0]}), tmp_path)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_gets_no_login(server: tuple[str, mlflow_server.Store], code: int) -> None:
    uri, store = server
    store.redirect = (code, "http://localhost:1/api/2.0/mlflow/experiments/search")
    with pytest.raises(ValueError, match=rf"HTTP {code}, a redirect to http://localhost:1/.* set MLFLOW_TRACKING_URI"):
        mlflow_run.check({mlflow_run.URI: uri, mlflow_run.TOKEN: "t0ken"})


@pytest.mark.slow
def test_two_uploads_at_a_time_make_one_run(tmp_path: Path, server: tuple[str, mlflow_server.Store]) -> None:
    uri, store = server
    results = curves_results.write(tmp_path / "demo")
    done: list[mlflow_run.Uploaded] = []
    made = mlflow_run.Server({mlflow_run.URI: uri})
    both = [threading.Thread(target=lambda: done.append(mlflow_run.upload(made, results))) for _number in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
    assert sorted(each.made for each in done) == [False, True]
    assert [run["deleted"] for run in store.runs.values()] == [False]


@pytest.mark.slow
def test_the_upload_of_another_control_node_is_not_deleted(
    tmp_path: Path, server: tuple[str, mlflow_server.Store]
) -> None:
    uri, store = server
    results, made = curves_results.write(tmp_path / "demo"), mlflow_run.Server({mlflow_run.URI: uri})
    mlflow_run.upload(made, results)
    del store.runs["run0"]["tags"][mlflow_run.COMPLETE]
    store.runs["run0"]["tags"][mlflow_run.BY] = f"elsewhere {time.time():.0f}"
    with pytest.raises(ValueError, match=r"elsewhere uploads this job to .* since [0-9]+ s"):
        mlflow_run.upload(made, results)
    assert not store.runs["run0"]["deleted"]
    store.runs["run0"]["tags"][mlflow_run.BY] = f"elsewhere {time.time() - 7200:.0f}"
    assert mlflow_run.upload(made, results).made
