"""What measuring playbooks refuse before any host is contacted, and how earlier results are protected: real runs.

What each refuses of a job and of its options is in the unit tests of its kind.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep
from support.refusals import Cluster

JOBS = {
    "scale": "{name: demo, script: script.py, args: {per_device_train_batch_size: 16}}",
    "tune": "{name: demo, script: script.py}",
    "plan": "{name: demo, script: script.py, kind: torch}",
    "infer": "{name: demo, kind: inference, inference: {models: [distilbert-small]}}",
}
JOB = "job=job.yml"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.inventory(head=["node0"], workers=["node1"])
    return made


def refused(cluster: Cluster, playbook: str, *options: str, of: str = "") -> str:
    """Run a playbook with the job of another one, or with its own."""
    cluster.job(JOBS[of or playbook])
    words = [word for option in (f"measure_results={cluster.folder}/results", *options) for word in ("-e", option)]
    return cluster.refusal_without_hosts(f"{playbook}.yml", *words)


@pytest.mark.parametrize(
    ("playbook", "options", "message"),
    [
        ("scale", [], "such as -e amx_job=jobs/demo.yml"),
        ("infer", [], "such as -e amx_job=jobs/inference.yml"),
        ("tune", [], "no job was named: add -e amx_job="),
        ("scale", ["job=none.yml"], "none.yml: there is no such job file"),
        ("scale", [JOB, "repeats=0"], "nothing was started: repeats: 0 "),
        ("infer", [JOB, "p99_ms=fast"], "inference: p99_ms: 'fast' is not a number above 0"),
        ("scale", [JOB, "{warm_up_steps: 3}"], "warm_up_steps: unknown option; did you mean amx_warmup_steps?"),
        ("infer", [JOB, "budgt=3"], "budgt: unknown option; did you mean amx_budget?"),
        ("plan", [JOB, "estimate=true"], "job demo is of kind torch"),
        ("plan", ["estimate=true"], "no job was named: add -e amx_job="),
        ("plan", [JOB, "estimate=perhaps"], "estimate: 'perhaps' is not true or false"),
        ("tune", [JOB, "repeat=2"], "repeat: unknown option; did you mean amx_repeats?"),
        ("scale", [JOB, "query=runs"], "query is for JSON: add -e amx_format=json"),
    ],
)
def test_requests(cluster: Cluster, playbook: str, options: list[str], message: str) -> None:
    assert message in refused(cluster, playbook, *options)


def test_other_playbooks_say_which_one_runs_a_job_of_kind_inference(cluster: Cluster) -> None:
    said = refused(cluster, "train", JOB, of="infer")
    assert "job demo is of kind inference: ansible-playbook -i hosts.yml playbooks/infer.yml -e amx_job=" in said


@pytest.mark.parametrize(("playbook", "name"), [("scale", "scale/sweep"), ("infer", "inference/inference")])
def test_earlier_results_that_cannot_be_read(cluster: Cluster, playbook: str, name: str) -> None:
    path = cluster.folder / f"results/demo-{name}.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1, "ru')
    assert f"{path} is not complete JSON: add -e amx_again=true" in refused(cluster, playbook, JOB)


def test_results_of_another_request(cluster: Cluster) -> None:
    request = {"job": {}, "contents": {}, "hosts": ["node1"], "steps": 9, "warmup_steps": 5, "scaling": "strong"}
    path = cluster.folder / "results/demo-scale/sweep.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"version": sweep.VERSION, "request": {**request, "constant_global_batch": False}}))
    said = refused(cluster, "scale", JOB)
    assert f"{path} is the sweep of another request, and results of both cannot be mixed:" in said
    assert "- the hosts differ: node1, now node0, node1" in said
    assert "- steps differs: 9, now 75" in said
    assert "or add -e amx_again=true to start this one; the other is moved aside" in said
