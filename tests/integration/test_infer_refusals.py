"""What infer.yml refuses before any host is contacted, and how an existing benchmark is protected: real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference
from support.refusals import Cluster

JOB = "{name: speed, kind: inference, inference: {models: [distilbert-small]%s}%s}"
REQUEST = ("-e", "job=job.yml")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.inventory(head=["node0"], workers=["node1"])
    made.job(JOB % ("", ""))
    return made


def refused(cluster: Cluster, *options: str, playbook: str = "infer.yml") -> str:
    return cluster.refusal_without_hosts(playbook, "-e", f"infer_results={cluster.folder}/results", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no job was named: add -e job=FILE, such as -e job=jobs/inference.yml"),
        (["-e", "job=none.yml"], "none.yml: there is no such job file"),
        ([*REQUEST, "-e", "budgt=3"], "budgt: unknown option; did you mean budget?"),
        ([*REQUEST, "-e", "p99_ms=fast"], "inference: p99_ms: 'fast' is not a number above 0"),
        ([*REQUEST, "-e", "query=cells"], "query is for JSON: add -e format=json"),
    ],
)
def test_requests(cluster: Cluster, options: list[str], message: str) -> None:
    assert message in refused(cluster, *options)


def test_jobs_that_cannot_be_measured(cluster: Cluster) -> None:
    cluster.job("{name: demo, script: script.py, kind: ranks}")
    assert "job demo is of kind ranks, and inference is measured of kind inference: write" in refused(cluster, *REQUEST)
    cluster.job(JOB % (", precisions: [fp16], engines: [onnx]", ""))
    said = refused(cluster, *REQUEST)
    assert "precisions: 'fp16' is not one of fp32, bf16, int8; engines: 'onnx' is not one of eager" in said
    cluster.job(JOB % (", tasks: {distilbert-small: image-classification}", ""))
    assert "distilbert-small is a model for text-classification and question-answering, it does not fit" in refused(
        cluster, *REQUEST
    )
    cluster.job(JOB % ("", ", hosts: [node7]"))
    assert "Job speed names node7, which the inventory's cluster does not have" in refused(cluster, *REQUEST)


def test_other_playbooks_say_which_one_runs_it(cluster: Cluster) -> None:
    said = refused(cluster, *REQUEST, playbook="train.yml")
    assert "job speed is of kind inference: ansible-playbook -i hosts.yml playbooks/infer.yml -e job=" in said


def test_a_benchmark_of_another_request(cluster: Cluster) -> None:
    path = cluster.folder / "results/speed-inference/inference.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1, "ce')
    assert f"{path} is not complete JSON: add -e again=true to start anew" in refused(cluster, *REQUEST)
    content = inference.new(load(cluster.folder / "job.yml"), {"project": "another"}, ["node0", "node1"], "")
    path.write_text(json.dumps(content.to_json()))
    said = refused(cluster, *REQUEST, "-e", "agreement=0.5")
    assert f"{path} is the inference benchmark of another request, and results of both cannot be mixed:" in said
    assert "- the content of project differs - agreement differs: 0.98, now 0.5" in said
