"""Which runtime a job has, also where a further one is added: the actions ask none by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import job_fetch, job_log, job_status, job_stop
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.hosts import Hosts
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import Fetched, Jobs, Runtime, Stopped
from support.modules import run_action

STATUS = {"state": "running", "reason": "", "started": "2026-11-20T13:00:00+00:00", "hosts": 2, "ranks": 4}


class Queue(Runtime):
    """A batch system with one job, batch, and one that the hosts have, too."""

    name = "queue"

    def is_configured(self) -> bool:
        return bool(self.variable("cluster_queue"))

    def has(self, job: str) -> bool:
        return job in ("batch", "both")

    def also_has(self, job: str) -> str:
        return f"{job} is in the queue, too" if self.has(job) else ""

    def missing(self, job: str) -> str:
        return f"neither the hosts nor the queue have {job}"

    def start(self, request: Any) -> dict[str, Any]:
        raise NotImplementedError

    def follow(self, job: str, *, shows_results: bool = True) -> dict[str, Any]:
        return {"followed": job}

    def log(self, job: str) -> dict[str, Any]:
        self.show(f"the log of {job}: playbooks/stop.yml -e job={job}")
        return {"logged": job}

    def status(self, job: str, gathered: Any) -> Jobs:
        if self.variable("cluster_queue") == "gone":
            return Jobs(problem="The queue does not answer.")
        entries = [{"name": "batch", "status": STATUS, "progress": {}}] if job in ("", "batch") else []
        return Jobs(entries, document={"queues": 1}, missing="" if entries else self.missing(job))

    def details(self, entry: Any) -> str:
        return f"{entry['name']} in full"

    def where(self, entry: Any) -> str:
        return "queue"

    def stop(self, job: str) -> Stopped:
        return Stopped(True, "left the queue", [job], note="its files stay")

    def fetch(self, job: str, to: Path) -> Fetched:
        raise ValueError(f"{job} waits")


@pytest.fixture(autouse=True)
def with_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "RUNTIMES", (Hosts, Queue))


def on_head(module_name: str, module_args: dict[str, Any], **_others: Any) -> dict[str, Any]:
    """Answer as a head that has the job both."""
    assert module_name.endswith("stat")
    return {"stat": {"exists": "/both/" in module_args["path"]}}


def run(action: Any, variables: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return run_action(
        action, options, on_head, variables={"cluster_prefix": "/opt", "cluster_queue": "q", **(variables or {})}
    )


def test_runtimes_are_those_that_launchers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert {runtime.name for runtime in known.RUNTIMES} == {launcher.runtime for launcher in LAUNCHERS.values()}


def test_a_job_of_a_further_runtime(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(job_log, job="batch")["logged"] == "batch"
    assert capsys.readouterr().out == "the log of batch: ansible-playbook playbooks/stop.yml -e amx_job=batch\n"
    assert run(job_log, job="batch", show="progress")["followed"] == "batch"
    stopped = run(job_stop, job="batch")
    assert (stopped["text"], stopped["ended"]) == ("job batch was stopped; left the queue", ["batch"])
    assert (stopped["hosts"], stopped["note"]) == ([], "its files stay")
    assert run(job_fetch, job="batch", results=str(tmp_path))["msg"] == "batch waits"


def test_a_job_that_no_runtime_has() -> None:
    assert run(job_stop, job="other")["msg"] == "neither the hosts nor the queue have other"
    assert run(job_status, job="other", gathered={})["msg"] == "neither the hosts nor the queue have other"
    gone = run(job_status, {"cluster_queue": "gone"}, job="other", gathered={})["msg"]
    assert gone.startswith("no job other was started ")
    assert gone.endswith("\nThe queue does not answer.")


def test_a_job_that_two_runtimes_have_is_the_hosts_one(capsys: pytest.CaptureFixture[str]) -> None:
    action: Any = type("Action", (), {"_execute_module": staticmethod(on_head), "_templar": None})
    variables = {"job_prefix": "/opt", "cluster_queue": "q"}
    action._templar = type("Templar", (), {"template": staticmethod(lambda value: value)})
    assert known.having("both", action, variables).name == "hosts"
    assert capsys.readouterr().out == "both is in the queue, too\n"
    assert known.having("batch", action, variables).name == "queue"
    del variables["cluster_queue"]
    assert known.having("batch", action, variables).name == "hosts", "it tells itself that it has no such job"


def test_one_table_of_all_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    here = {"path": "/opt/jobs/demo", "user": "anna", "status": {**STATUS, "state": "failed"}, "progress": {}}
    gathered = {"node0": {"jobs": [here]}}
    run(job_status, gathered=gathered)
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["job", "where", "state", "owner"],
        ["demo", "hosts", "failed", "anna"],
        ["batch", "queue", "running", "-"],
    ]
    run(job_status, job="batch", gathered=gathered)
    assert capsys.readouterr().out == "batch in full\n"
    run(job_status, {"cluster_queue": "gone"}, gathered=gathered)
    assert capsys.readouterr().out.splitlines()[-1] == "The queue does not answer."
    run(job_status, gathered=gathered, format="json", query="[jobs[].name, queues]")
    assert capsys.readouterr().out == '[["demo", "batch"], 1]\n'
