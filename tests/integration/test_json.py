"""Reports as JSON: real runs of the playbooks, which print one document on one line, or write it to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.local_cluster import LocalCluster

HOSTS = "Hosts: 1 host of hosts.yml: head node0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """A cluster on which a job has run."""
    made = LocalCluster(tmp_path_factory.mktemp("cluster"))
    job = made.write_job("mine", "import json, os; os.makedirs('output', exist_ok=True)")
    made.succeed("train", made.play("train", "-e", f"job={job}"))
    return made


def document(cluster: LocalCluster, name: str, *options: str, code: int = 0) -> Any:
    """The one document that a playbook prints."""
    assert cluster.play(name, "-e", "format=json", *options).wait(300) == code, cluster.output(name)[-8000:]
    found = [line for line in cluster.output(name).splitlines() if line[:1] in '{["' and is_json(line)]
    assert len(found) == 1, cluster.output(name)[-8000:]
    assert HOSTS in cluster.output(name)
    return json.loads(found[0])


def is_json(line: str) -> bool:
    """Tell whether a line is JSON: those of Ansible such as [WARNING] are not."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_status(cluster: LocalCluster) -> None:
    (job,) = document(cluster, "status")["jobs"]
    assert (job["name"], job["status"]["state"], job["ranks"]) == ("mine", "succeeded", [])
    query = json.dumps({"query": "jobs[?status.state == `succeeded`].name | [0]"})
    assert document(cluster, "status", "-e", "job=mine", "-e", query) == "mine"


def test_plan(cluster: LocalCluster) -> None:
    assert document(cluster, "plan", "-e", "job=mine.yml", "-e", "query=hosts[].host") == ["node0"]


def test_doctor(cluster: LocalCluster) -> None:
    report = document(cluster, "doctor", code=2)  # the virtual environment is a stand-in
    assert report["hosts"] == ["node0"]
    assert {finding["check"] for finding in report["findings"]} >= {"provider"}
    assert report["amx"][0]["hosts"] == ["node0"]


def test_results_in_a_file(cluster: LocalCluster) -> None:
    words = ["-e", "job=mine", "-e", "format=json", "-e", "output=mine.json"]
    cluster.succeed("results", cluster.play("results", *words))
    assert "Wrote " in cluster.output("results")
    written = json.loads((cluster.folder / "mine.json").read_text())
    assert (written["job"], written["state"]) == ("mine", "succeeded")
    assert Path(written["directory"], "results.json").is_file()


@pytest.mark.parametrize(
    ("playbook", "options", "message"),
    [
        ("status", ["query=jobs["], "query: 'jobs[' is not JMESPath (https://jmespath.org): "),
        ("status", ["output=/no/where/x"], "output: there is no directory /no/where on the control node"),
        (
            "train",
            [],
            "format: json is for playbooks/status.yml, doctor.yml, plan.yml, verify.yml, results.yml, report.yml, "
            "scale.yml, tune.yml, infer.yml, predict.yml, network.yml and manifest.yml",
        ),
    ],
)
def test_refused_before_anything_runs(cluster: LocalCluster, playbook: str, options: list[str], message: str) -> None:
    words = [word for option in ["format=json", "job=mine.yml", *options] for word in ("-e", option)]
    assert cluster.play(playbook, *words).wait(300) == 2
    said = cluster.output(playbook)
    assert message in said
    assert "node0]" not in said, "a host was contacted"
