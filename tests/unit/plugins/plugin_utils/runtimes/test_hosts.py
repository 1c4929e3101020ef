"""Jobs on hosts: what is run on the head, and what a person reads. The head's answers are made up."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.amx.cluster.plugins.action import job_fetch, job_log, job_start, job_stop
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import hosts, runtime
from support.modules import run_action
from support.runs import run

PREFIX = {"job_prefix": "/opt/amx", "job_hosts": ["node0", "node1"]}
RUNNING = {"job": "demo", "state": "running", "reason": "", "ranks": 2}
FAILED = {**RUNNING, "state": "failed", "reason": "rank 1 ended with exit code 1", "returncode": 1}
LOG = "step 1\n--- rank 1 on node1 failed ---\nValueError: no\n--- end of rank 1 ---\n"
OUTCOME = {"job": "demo", "state": "succeeded", "started": "2026-11-20T13:00:00+00:00"}

Answers = Callable[..., dict[str, Any]]


def look(status: dict[str, Any], log: str = "", **more: Any) -> dict[str, Any]:
    return {"status": status, "log": log, "log_offset": len(log), "progress": {}, "ranks": {}, "outcome": {}, **more}


class Head:
    """Answers each module by the next of its answers; the last one again and again. `asked` has what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {name: list(found) if isinstance(found, list) else [found] for name, found in answers.items()}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, *, module_name: str, module_args: dict[str, Any], **_others: Any) -> dict[str, Any]:
        name = module_name.rpartition(".")[2]
        self.asked.append((name, module_args))
        answers = self.answers.get(name, [{}])
        found: dict[str, Any] = answers.pop(0) if len(answers) > 1 else answers[0]
        return found

    def command(self, words: str, in_data: bytes) -> dict[str, Any]:
        """Answer a command of the runtime; as a host with that of another version where there is no answer to ask."""
        name = next(name for name in ("start", "install", "ask") if f" {name} " in f"{words} ")
        if name == "ask" and name not in self.answers:
            return {"rc": 2, "stdout": "", "stderr": "no such file"}
        self.asked.append((name, {"words": words, "sent": in_data}))
        answers = self.answers.get(name, [{}])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return {"rc": 0, "stdout": json.dumps(found), "stderr": ""} if isinstance(found, dict) else found[0]

    def options(self, module: str) -> dict[str, Any]:
        return next(options for name, options in self.asked if name == module)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "INTERVAL", 0)


def start(head: Head, folder: Path, **options: Any) -> dict[str, Any]:
    for name in ("demo.yml", "train.py"):
        (folder / name).write_text("name: demo\n")
    job = run(file=folder / "demo.yml", script=folder / "train.py").job
    started = {"job": job.to_json(), "settings": {"head": "node0", "start": "42"}}
    given = {"run": started, "shows_results": False, **options}
    given["plan"] = {"environment": "/opt/amx/envs/native", "runtime": "/opt/amx/runtime/0123"}
    return run_action(job_start, given, head, variables=PREFIX, execute_command=head.command)


@pytest.mark.slow
def test_a_job_is_started_and_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = look({**RUNNING, "state": "succeeded"}, outcome=OUTCOME)
    head = Head(job_info=[look(RUNNING, "step 1\n"), look({**RUNNING, "state": "succeeded"}, "step 2\n"), ended])
    answer = start(head, tmp_path, job_env={"HF_TOKEN": "kept"})
    words = head.options("start")["words"]
    assert "exec /opt/amx/envs/native/bin/python -S /opt/amx/runtime/0123 start /opt/amx/jobs/demo" in words
    document = json.loads(head.options("start")["sent"])
    assert (document["jobs"], document["run"]["settings"]["start"]) == ("/opt/amx/jobs", "42")
    assert document["files"] == {"train.py": "name: demo\n", "job.yml": "name: demo\n"}
    assert document["secrets"] == {}
    assert (answer["changed"], answer["outcome"]) == (True, OUTCOME)
    shown = capsys.readouterr().out
    assert shown.startswith(
        "Ctrl-C leaves job demo running. Its log: ansible-playbook playbooks/logs.yml -e amx_job=demo\n"
    )
    assert "step" not in shown, "the log is for logs.yml"


@pytest.mark.slow
def test_a_log_is_read_where_it_is_shown_alone() -> None:
    """A script may print more than can be read while it runs."""
    asked = {}
    for name in ("log", "progress"):
        head = Head(job_info=[look(RUNNING, "step 1\n"), look(FAILED, ""), look(FAILED, LOG)])
        answer = run_action(
            job_log, {"job": "demo", "show": name}, head, variables=PREFIX, execute_command=head.command
        )
        asked[name] = [options["log_offset"] for _name, options in head.asked]
    assert asked == {"log": [0, 7], "progress": [hosts.BEHIND, 7, -hosts.REASON]}
    assert answer["msg"].endswith("ValueError: no")


def test_a_job_that_cannot_be_started_is_not_followed(tmp_path: Path) -> None:
    head = Head(start={"failed": True, "msg": "demo runs: playbooks/stop.yml"})
    assert start(head, tmp_path)["msg"] == "demo runs: ansible-playbook playbooks/stop.yml"
    assert [name for name, _options in head.asked] == ["start"]


@pytest.mark.slow
def test_a_head_that_lacks_the_runtime_gets_it(tmp_path: Path) -> None:
    lacking = [{"rc": archive.MISSING, "stdout": "", "stderr": ""}]
    head = Head(start=[lacking, {"failed": True, "msg": "no"}], install={})
    assert start(head, tmp_path)["msg"] == "no"
    assert [name for name, _options in head.asked] == ["start", "install", "start"]
    assert archive.unpack(head.options("install")["sent"]) == archive.of_collection()
    head = Head(start=[lacking], install=[[{"rc": 1, "stdout": "", "stderr": "No space left on device"}]])
    assert start(head, tmp_path)["msg"].startswith("the file system on node0 is full")


def test_in_check_mode_nothing_is_started() -> None:
    head = Head()
    started = {"job": run().job.to_json(), "settings": {"head": "node0"}}
    assert run_action(job_start, {"run": started}, head, check=True, variables=PREFIX) == {"changed": False}
    assert head.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("show", ["log", "progress"])
def test_a_job_that_failed_fails_the_task_with_what_its_log_tells(
    show: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {**FAILED, "advice": "playbooks/train.yml -e job=demo.yml resumes it"}
    head = Head(job_info=[look(ended, LOG), look(ended, outcome={}), look(ended, LOG)])
    answer = run_action(job_log, {"job": "demo", "show": show}, head, variables=PREFIX, execute_command=head.command)
    assert (answer["failed"], answer["status"]["state"]) == (True, "failed")
    told = answer["msg"].splitlines()
    assert told[0] == "job demo failed: rank 1 ended with exit code 1"
    assert told[1] == "ansible-playbook playbooks/train.yml -e amx_job=demo.yml resumes it"
    assert answer["msg"].endswith("ValueError: no")
    assert ("step 1" in capsys.readouterr().out) == (show == "log")


@pytest.mark.slow
def test_a_connection_that_is_lost_is_not_the_end_of_the_job() -> None:
    head = Head(job_info=[look(RUNNING), {"unreachable": True, "msg": "no route"}])
    with pytest.raises(AnsibleConnectionFailure) as error:
        run_action(job_log, {"job": "demo"}, head, variables=PREFIX, execute_command=head.command)
    assert str(error.value) == (
        "no route\nThe job does not need this connection; ansible-playbook playbooks/status.yml -e amx_job=demo shows "
        "its status."
    )


@pytest.mark.parametrize(
    ("running", "check", "text"),
    [
        (True, False, "job demo was stopped; orphaned processes ended"),
        (True, True, "job demo would be stopped; orphaned processes that would be ended"),
        (False, False, "job demo was not running; orphaned processes ended"),
    ],
)
def test_a_job_is_stopped(running: bool, check: bool, text: str) -> None:
    head = Head(job_end={"known": True, "was_running": running, "lines": ["node0 rank 0 (process 42)"]})
    answer = run_action(job_stop, {"job": "demo"}, head, check=check, variables=PREFIX)
    assert (answer["text"], answer["missing"], answer["hosts"]) == (text, "", ["node1"])
    assert answer["ended"] == ["node0 rank 0 (process 42)"]
    assert head.options("job_end") == {"path": "/opt/amx/jobs/demo", "host": "node0"}


def test_what_a_job_has_left_is_ended_on_the_other_hosts() -> None:
    head = Head(job_end={"known": False, "was_running": False, "lines": ["node1 rank 1 (process 43)"]})
    variables = {**PREFIX, "inventory_hostname": "node1"}
    answer = run_action(job_stop, {"job": "demo", "rest": True}, head, variables=variables)
    assert answer == {"changed": True, "ended": ["node1 rank 1 (process 43)"]}


def test_a_job_that_is_not_there_is_missing_unless_something_is_left() -> None:
    head = Head(job_end={"known": False, "was_running": False, "lines": []})
    missing = run_action(job_stop, {"job": "demo"}, head, variables=PREFIX, execute_command=head.command)["missing"]
    assert missing.startswith("no job demo was started on this cluster: ansible-playbook playbooks/status.yml lists")
    assert run_action(job_stop, {}, head, variables=PREFIX, execute_command=head.command)["msg"].startswith(
        "no job was named: add -e amx_job=NAME"
    )


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have files fetched from a head that has a job's directory and its stack; return which were."""
    folder, fetched = tmp_path / "demo", list[str]()
    folder.mkdir()
    (folder / "plan.json").write_text('{"environment": "/opt/amx/envs/native"}')
    (folder / "results.json").write_text(json.dumps(OUTCOME))

    def fetch(_self: Any, source: str, to: Path, *, required: bool = True) -> None:
        fetched.append(source)
        if to.name == "stack.json":
            to.write_text("{}")
            return
        with tarfile.open(to, "w") as archive:
            archive.add(folder, ".")

    monkeypatch.setattr(runtime.Runtime, "fetch_file", fetch)
    return fetched


@pytest.mark.slow
def test_results_are_fetched(packed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = Head(job_info=look({**RUNNING, "state": "succeeded"}, outcome=OUTCOME), own_path={"path": "/tmp/private"})
    answer = run_action(
        job_fetch,
        {"job": "demo", "results": str(tmp_path / "to")},
        head,
        variables=PREFIX,
        execute_command=head.command,
    )
    assert answer == {"changed": True, "job": "demo"}
    files = ["plan.json", "report.html", "results.json", "stack.json"]
    assert sorted(path.name for path in (tmp_path / "to/demo").iterdir()) == files
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["demo"], "the private directory is removed"
    assert packed == ["/tmp/private/results.tar", "/opt/amx/envs/native/amx-cluster.json"]
    argv = head.options("command")["argv"]
    assert {f"--exclude=./{name}" for name in hosts.NOT_FETCHED} < set(argv)
    assert [options["path"] for name, options in head.asked if name == "file"] == [
        "/opt/amx/jobs/demo/secrets.json",
        "/tmp/private",
    ]
    shown = capsys.readouterr().out.splitlines()
    page = tmp_path / "to/demo/report.html"
    assert shown == [f"succeeded: model, metrics and log are in {page.parent}", f"The report is {page.as_uri()}"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"job_info": look(RUNNING)}, "Job demo is running and has no results yet."),
        (
            {
                "job_info": look({**RUNNING, "state": "succeeded"}, outcome=OUTCOME),
                "own_path": {"path": "/tmp/private"},
                "command": {"failed": True, "msg": "non-zero return code", "stderr": "tar: no space"},
            },
            "tar: no space",
        ),
    ],
)
def test_nothing_is_left_of_results_that_cannot_be_fetched(
    answers: dict[str, Any], message: str, tmp_path: Path
) -> None:
    head = Head(**answers)
    assert (
        run_action(
            job_fetch, {"job": "demo", "results": str(tmp_path)}, head, variables=PREFIX, execute_command=head.command
        )["msg"]
        == message
    )
    assert list(tmp_path.iterdir()) == []
    if "own_path" in answers:
        assert head.asked[-1] == ("file", {"path": "/tmp/private", "state": "absent"})


def test_in_check_mode_nothing_is_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_action(job_fetch, {"job": "demo", "results": str(tmp_path)}, Head(), check=True, variables=PREFIX)
    assert answer["changed"]
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out.startswith("Would be fetched: the results of job demo")
