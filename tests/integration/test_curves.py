"""The curves of a small training that is killed and restarted, read by TensorBoard, and what is told of its end.

Two ranks of this machine: rank.py, observer, supervisor, transformers' Trainer, TensorBoard and MLflow are the real
ones. The server that is told is this test's own.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import curves, directory, mlflow_run, on_end
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints
from support import checkout, curves_results, hooks, mlflow_server, playbooks, real_jobs
from support.at_length import only_at_length
from support.checkout import ROOT
from support.local_cluster import LocalCluster
from support.patience import until
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SCRIPT = ROOT / "tests/integration/zoo/decoder.py"
STEPS = 6


def outcome(folder: Path) -> dict[str, Any]:
    """Return what came of a job's on_end, once it is over."""
    end = time.monotonic() + real_jobs.LIMIT
    while not (found := read_json(folder / on_end.OUTCOME)):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves in a directory as TensorBoard has them: {tag: [(step, value)]}."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A job's directory after its last rank was killed at its fifth step and it went on from its fourth, and what was
    told of its end by a server that first failed."""
    folder = tmp_path_factory.mktemp("curves") / "jobs/demo"
    folder.mkdir(parents=True)
    args = {"max_steps": STEPS, "per_device_train_batch_size": 4, "logging_steps": 1, "report_to": "none"}
    with hooks.listening(503, 200) as (url, came):
        real_jobs.start(
            {"localhost": folder},
            SCRIPT,
            environment,
            [{}, {}],
            files={"secrets.json": json.dumps({on_end.SECRET: url})},
            kind="trainer",
            args=args,
            checkpoints=Checkpoints(2, 2),
            restarts=1,
            env={"DIES_AT": "5"},
            on_end=on_end.OnEnd(url=url),
        )
        status, log = real_jobs.ended(folder)
        assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
        outcome(folder)
    return folder, came


def test_curves_across_a_restart(restarted: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, _came = restarted
    status = json.loads((folder / "status.json").read_text())
    assert [attempt["from"] for attempt in status["attempts"]] == ["the beginning", "checkpoint-4"]
    (written,) = curves.write_events(folder)
    found = scalars(written.parent)
    losses = json.loads((folder / "output/all_results.json").read_text())["losses"]
    assert found["train/loss"] == [(step, pytest.approx(loss)) for step, loss in enumerate(losses, 1)]
    assert len(losses) == STEPS
    assert [step for step, _value in found["train/learning_rate"]] == list(range(1, STEPS + 1))
    assert [step for step, _value in found["train/train_runtime"]] == [STEPS]
    assert curves.write_events(folder) == [written]
    assert scalars(written.parent) == found


def test_the_end_is_told_once_the_server_answers(restarted: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, came = restarted
    results = json.loads((folder / "results.json").read_text())
    assert [entry["state"] for entry in came] == ["succeeded", "succeeded"]
    assert came[1]["results"] == results
    seen = directory.look(folder)["status"]["on_end"]
    assert (seen["ok"], seen["tries"]) == (True, 2)
    assert seen["text"].endswith("/***: HTTP 200, after 2 tries")
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in ("", ".json", ".log", ".yml", ".sh", ".jsonl"):
            assert hooks.SECRET not in path.read_text(errors="replace"), path


def test_results_are_uploaded_by_the_playbook(trained: LocalCluster, tmp_path: Path) -> None:
    """The fetched results of a job become one run, however often; what cannot be uploaded is not fetched."""
    results = tmp_path / "results"

    def fetch(target: str, **environ: str) -> tuple[int, str]:
        options = ["-e", "job=mine", "-e", f"upload={target}", "-e", f"job_results={results}"]
        env = {**checkout.environment(), **environ}
        ran = playbooks.play(trained.folder, ROOT / "playbooks/results.yml", *options, env=env)
        return ran.returncode, " ".join(ran.stdout.split())

    for target, environ, message in (
        ("neptune", {}, "upload: 'neptune' is not one of "),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer"),
    ):
        code, said = fetch(target, **environ)
        assert code != 0
        assert message in said
        assert not results.exists()
    with mlflow_server.running() as (uri, store):
        for expected in ("Uploaded: ", "Was uploaded before: "):
            code, said = fetch("mlflow", MLFLOW_TRACKING_URI=uri)
            assert code == 0, said[-4000:]
            assert f"{expected}{uri}/#/experiments/1/runs/run0" in said
    (run,) = store.runs.values()
    assert (run["tags"]["job"], run["tags"]["state"]) == ("mine", "succeeded")


SERVE = """
import os, sys
folder, port = sys.argv[1:]
os.environ.update(
    _MLFLOW_SERVER_FILE_STORE=f"sqlite:///{folder}/runs.db",
    _MLFLOW_SERVER_ARTIFACT_ROOT=f"{folder}/artifacts",
    MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE="true",
)
from mlflow.server import app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(port), app)
"""
PACKAGES = ("mlflow-skinny==3.17.2", "flask", "flask-cors", "sqlalchemy", "alembic", "graphene")


@only_at_length("it installs MLflow; the stand-in for its server is asked the same")
def test_a_real_mlflow_server(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    uri = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([python, "-c", SERVE, tmp_path, port], cwd=tmp_path)
    try:
        results = curves_results.write(tmp_path / "demo", points=1200)

        def upload() -> mlflow_run.Uploaded | None:
            with suppress(ValueError):
                return mlflow_run.upload(mlflow_run.check({mlflow_run.URI: uri}), results)
            return None

        done = until(upload, 120)
        again = upload()
        assert again is not None
        assert (done.made, again.made, again.run) == (True, False, done.run)
        client = (
            "import json, mlflow, sys\n"
            "client = mlflow.MlflowClient(sys.argv[1])\n"
            "run = client.get_run(sys.argv[2])\n"
            "losses = [[metric.step, metric.value] for metric in client.get_metric_history(sys.argv[2], 'loss')]\n"
            "found = client.search_runs([run.info.experiment_id])\n"
            "print(json.dumps([len(found), run.info.status, run.data.params, run.data.tags['ranks'], losses]))"
        )
        ran = subprocess.run([python, "-c", client, uri, done.run], capture_output=True, text=True, check=True)
        count, status, params, ranks, losses = json.loads(ran.stdout.splitlines()[-1])
        assert (count, status, params["learning_rate"], ranks) == (1, "FINISHED", "0.001", "4")
        assert sorted(losses) == [[step, 4.0 - step] for step in range(1, 1201)]
    finally:
        server.terminate()
        server.wait()
