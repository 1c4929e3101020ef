"""Reports as JSON: real runs of the playbooks, which print one document on one line, or write it to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.local_cluster import LocalCluster

HOSTS = "Hosts: 1 host of hosts.yml: head node0"


def document(trained: LocalCluster, name: str, *options: str, code: int = 0) -> Any:
    """The one document that a playbook prints."""
    assert trained.play(name, "-e", "format=json", *options).wait(300) == code, trained.output(name)[-8000:]
    found = [line for line in trained.output(name).splitlines() if line[:1] in '{["' and is_json(line)]
    assert len(found) == 1, trained.output(name)[-8000:]
    assert HOSTS in trained.output(name)
    return json.loads(found[0])


def is_json(line: str) -> bool:
    """Tell whether a line is JSON: those of Ansible such as [WARNING] are not."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_status(trained: LocalCluster) -> None:
    (job,) = document(trained, "status")["jobs"]
    assert (job["name"], job["status"]["state"], job["ranks"]) == ("mine", "succeeded", [])
    query = json.dumps({"query": "jobs[?status.state == `succeeded`].name | [0]"})
    assert document(trained, "status", "-e", "job=mine", "-e", query) == "mine"


def test_plan(trained: LocalCluster) -> None:
    assert document(trained, "plan", "-e", "job=mine.yml", "-e", "query=hosts[].host") == ["node0"]


def test_doctor(trained: LocalCluster) -> None:
    report = document(trained, "doctor", code=2)  # the virtual environment is a stand-in
    assert report["hosts"] == ["node0"]
    assert {finding["check"] for finding in report["findings"]} >= {"provider"}
    assert report["amx"][0]["hosts"] == ["node0"]


def test_results_in_a_file(trained: LocalCluster) -> None:
    words = ["-e", "job=mine", "-e", "format=json", "-e", "output=mine.json"]
    trained.succeed("results", trained.play("results", *words))
    assert "Wrote " in trained.output("results")
    written = json.loads((trained.folder / "mine.json").read_text())
    assert (written["job"], written["state"]) == ("mine", "succeeded")
    assert Path(written["directory"], "results.json").is_file()


@pytest.mark.parametrize(
    ("playbook", "options", "message"),
    [
        ("status", ["query=jobs["], "query: 'jobs[' is not JMESPath"),
        ("status", ["output=/no/where/x"], "output: there is no directory /no/where"),
        ("train", [], "format: json is for playbooks/status.yml, "),
    ],
)
def test_refused_before_anything_runs(trained: LocalCluster, playbook: str, options: list[str], message: str) -> None:
    words = [word for option in ["format=json", "job=mine.yml", *options] for word in ("-e", option)]
    assert trained.play(playbook, *words).wait(300) == 2
    said = trained.output(playbook)
    assert message in said
    assert "node0]" not in said, "a host was contacted"
