"""What a prediction refuses before any host is contacted, and how an existing one is protected: real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.refusals import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.inventory(head=["node0"], workers=["node1"])
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n2,two\n")
    (tmp_path / "empty.csv").write_text("id,text\n")
    (tmp_path / "rows.txt").write_text("one\n")
    (tmp_path / "of_other.yml").write_text("{model: 'job:other', precision: bf16, batch_size: 4}\n")
    (tmp_path / "wrong.yml").write_text("{precision: fp8}\n")
    (tmp_path / "out.csv").write_text("mine\n")
    return made


def refused(cluster: Cluster, *options: str) -> str:
    return cluster.refusal_without_hosts("predict.yml", "-e", f"predict_results={cluster.folder}/results", *options)


JOB = ("-e", "job=demo")
DATA = ("-e", "data=rows.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*DATA], "no model was named: add -e amx_job="),
        ([*JOB, *DATA, "-e", "model=here"], "job and model were both named"),
        ([*DATA, "-e", "model=here"], "/here is not there: name a directory on the control node"),
        ([*JOB], "no data were named: add -e amx_data=FILE, a CSV, JSON lines or Parquet file"),
        ([*JOB, "-e", "data=none.csv"], "data: there is no file "),
        ([*JOB, "-e", "data=empty.csv"], "empty.csv is empty: "),
        ([*JOB, "-e", "data=rows.txt"], "its name must end in one of "),
        ([*JOB, "-e", "data=head:rows.csv"], "is not head:/PATH with an absolute path on the head"),
        ([*JOB, *DATA, "-e", "setting=none.yml"], "setting: there is no file "),
        ([*JOB, *DATA, "-e", "setting=wrong.yml"], "precision: 'fp8' is not one of "),
        (
            [*JOB, *DATA, "-e", "setting=of_other.yml"],
            "of_other.yml is a setting of model job:other, and this prediction is made with job demo",
        ),
        ([*JOB, *DATA, "-e", "output_file=out.csv"], "out.csv exists already: remove it, or name another file"),
        ([*JOB, *DATA, "-e", "output_file=no/out.csv"], "output_file: there is no directory "),
        ([*JOB, *DATA, "-e", "outputfile=a.csv"], "outputfile: unknown option; did you mean amx_output_file?"),
        ([*JOB, *DATA, "-e", "{override: {hosts: 3}}"], "the inventory has 2 (node0, node1)"),
        ([*JOB, *DATA, "-e", "predict_name=My"], "choose one with -e amx_predict_name=NAME"),
    ],
)
def test_requests(cluster: Cluster, options: list[str], message: str) -> None:
    assert message in refused(cluster, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no model was named: add -e amx_job="),
        ([*JOB, "-e", "model=here"], "job and model were both named: a server is made with one of them"),
        ([*JOB, "-e", "setting=wrong.yml"], "precision: 'fp8' is not one of "),
        ([*JOB, "-e", "amx_serve_port=80"], "serve_port: 80 is not a port"),
        ([*JOB, "-e", "amx_serve_address=node0"], "serve_address: 'node0' is no IP address"),
        ([*JOB, "-e", "amx_serve_name=My"], "choose one with -e amx_serve_name=NAME"),
        ([*JOB, "-e", "serve_adapters=a=b"], "serve_adapters: serve_engine: amx serves one set of weights"),
        ([*JOB, "-e", "amx_serve_prt=8000"], "amx_serve_prt: unknown option; did you mean amx_serve_port?"),
    ],
)
def test_servers(cluster: Cluster, options: list[str], message: str) -> None:
    assert message in cluster.refusal_without_hosts("serve.yml", *options)


def earlier(cluster: Cluster, content: dict[str, Any] | str) -> Path:
    """Leave a prediction of the job behind."""
    path = cluster.folder / "results/demo-predict/prediction.json"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_prediction_of_other_data_or_columns(cluster: Cluster) -> None:
    request = {"data": {"name": "old.csv", "sha256": "0123456789abcdef"}, "columns": ["id"], "batch_size": 16}
    path = earlier(cluster, {"version": 1, "state": "incomplete", "request": request})
    said = refused(cluster, *JOB, *DATA, "-e", "columns=text")
    assert f"{path} is of another prediction, and rows of both cannot be mixed:" in said
    assert "- the data differ: old.csv (SHA-256 0123456789ab), now rows.csv (SHA-256 " in said
    assert "- columns differ: id, now text" in said
    assert "or add -e amx_again=true to make it in its place; the other is moved aside" in said


def test_output_that_exists(cluster: Cluster) -> None:
    request = {"columns": ["text"]}
    path = earlier(
        cluster,
        {
            "version": 1,
            "state": "complete",
            "ended": "2026-01-01T00:00:00+00:00",
            "request": request,
            "files": [{"file": "predictions.csv", "sha256": "0123"}],
        },
    )
    (path.parent / "predictions.csv").write_text("edited by its user")
    said = refused(cluster, *JOB, *DATA)
    assert "has the output of this prediction already, made 2026-01-01T00:00:00+00:00: give this" in said


def test_a_prediction_that_cannot_be_read(cluster: Cluster) -> None:
    path = earlier(cluster, '{"version": 1, "req')
    assert f"{path} is not complete JSON: add -e amx_again=true" in refused(cluster, *JOB, *DATA)
