"""What a sweep refuses before any host is contacted, and how an existing one is protected: real runs of scale.yml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep as logic
from support.refusals import Cluster

JOB = "{name: demo, script: script.py, args: {per_device_train_batch_size: 16}%s}"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.inventory(head=["node0"], workers=["node1"])
    made.job(JOB % "")
    return made


def refused(cluster: Cluster, *options: str) -> str:
    return cluster.refusal_without_hosts("scale.yml", "-e", f"scale_results={cluster.folder}/results", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no job was named: add -e job=FILE, such as -e job=jobs/demo.yml"),
        (["-e", "job=none.yml"], "none.yml: there is no such job file"),
        (
            ["-e", "job=job.yml", "-e", "counts=1,3", "-e", "repeats=0", "-e", "scaling=string"],
            "job demo cannot be scaled, nothing was started: repeats: 0 is not a whole number of at least 1 counts: 3 "
            "hosts are requested and the inventory has 2 (node0, node1): leave it out, or add workers scaling: "
            "'string' is not one of strong, weak",
        ),
        (["-e", "job=job.yml", "-e", "repeat=3"], "repeat: unknown option; did you mean repeats?"),
        (
            ["-e", "job=job.yml", "-e", "{warm_up_steps: 3}"],
            "warm_up_steps: unknown option; did you mean warmup_steps?",
        ),
        (["-e", "job=job.yml", "-e", "query=runs"], "query is for JSON: add -e format=json"),
    ],
)
def test_requests(cluster: Cluster, options: list[str], message: str) -> None:
    assert message in refused(cluster, *options)


def test_jobs_that_cannot_be_scaled(cluster: Cluster) -> None:
    cluster.job(JOB % ", kind: ranks")
    assert "of kind ranks: its ranks do not train together" in refused(cluster, "-e", "job=job.yml")
    cluster.job(JOB % ", hosts: [node1, node7]")
    assert "Job demo names node7, which the inventory's cluster does not have" in refused(cluster, "-e", "job=job.yml")


def sweep(cluster: Cluster, content: dict[str, Any] | str) -> Path:
    """Leave a sweep of the job behind."""
    path = cluster.folder / "results/demo-scale/sweep.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_sweep_of_another_request(cluster: Cluster) -> None:
    request = {"job": {}, "contents": {}, "hosts": ["node1"], "steps": 9, "warmup_steps": 5, "scaling": "strong"}
    path = sweep(cluster, {"version": logic.VERSION, "request": {**request, "constant_global_batch": False}})
    said = refused(cluster, "-e", "job=job.yml")
    assert f"{path} is the sweep of another request, and results of both cannot be mixed:" in said
    assert "- the hosts differ: node1, now node0, node1" in said
    assert "- steps differs: 9, now 75" in said
    assert "or add -e again=true to start this one; the other is moved aside" in said


def test_a_sweep_that_cannot_be_read(cluster: Cluster) -> None:
    path = sweep(cluster, '{"version": 1, "ru')
    assert f"{path} is not complete JSON: add -e again=true to start anew" in refused(cluster, "-e", "job=job.yml")
