from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, ending
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import queue
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm.queue import AwayError, Seen

# What squeue of Slurm 22.05.8 prints.
RUNNING = "27|RUNNING|None|2026-11-28T02:59:31|s[1-2]\n"
PENDING = "31|PENDING|Resources|2026-11-28T03:02:10|\n"
CANCELLED = "24|CANCELLED|None|2026-11-28T02:58:19|s[0-1]\n"
FORGOTTEN = (1, "", "slurm_load_jobs error: Invalid job id specified\n")
NO_ACCOUNTING = (1, "", "Slurm accounting storage is disabled\n")
AWAY = (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, str, str]]:
    """Return what each command of Slurm's answers, by its name; the words of those that were run are under "ran"."""
    answers: dict[str, Any] = {"sacct": NO_ACCOUNTING, "scancel": (0, "", ""), "ran": []}

    def run(*words: str, **_options: Any) -> tuple[int, str, str]:
        answers["ran"].append(" ".join(words))
        return answers[words[0]]

    monkeypatch.setattr(queue, "run", run)
    monkeypatch.setattr(queue, "_answers", {})
    return answers


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return the directory of a job that was submitted."""
    path = tmp_path / "jobs/demo"
    path.mkdir(parents=True)
    status = {"job": "demo", "state": "running", "reason": "", "pid": 0, "started": "2026-11-28T02:59:27+00:00"}
    write_json(path / "status.json", {**status, "slurm": {"id": "27"}, "attempts": [], "notes": []})
    return path


def test_lines_of_squeue() -> None:
    assert queue.parse(RUNNING) == Seen("RUNNING", "", "2026-11-28T02:59:31", "s[1-2]")
    assert queue.parse(PENDING) == Seen("PENDING", "Resources", "2026-11-28T03:02:10")
    assert queue.parse("25|PENDING|ReqNodeNotAvail, UnavailableNodes:s2|N/A|\n") == Seen(
        "PENDING", "ReqNodeNotAvail, UnavailableNodes:s2"
    )
    assert queue.parse("") is None


def test_lines_of_sacct() -> None:
    assert queue.parse_accounting("CANCELLED by 1000\n") == Seen("CANCELLED")
    assert queue.parse_accounting("") is None


def test_a_pending_job_says_why(slurm: dict[str, Any], job: Path) -> None:
    slurm["squeue"] = (0, PENDING, "")
    seen = directory.look(job)["status"]
    assert (seen["state"], seen["waiting"]) == (
        "running",
        "Slurm job 27 is pending: Resources (it waits for nodes that are in use), expected to start at "
        "2026-11-28T03:02:10",
    )
    assert directory.running(job) is not None


def test_slurm_is_not_asked_while_the_supervisor_shows_that_it_runs(slurm: dict[str, Any], job: Path) -> None:
    (job / queue.ALIVE).touch()
    assert directory.look(job)["status"]["state"] == "running"
    assert slurm["ran"] == []
    long_ago = time.time() - 2 * queue.SILENT
    os.utime(job / queue.ALIVE, (long_ago, long_ago))
    slurm["squeue"] = (0, RUNNING, "")
    assert directory.look(job)["status"]["waiting"] == "Slurm job 27 is RUNNING on s[1-2]"
    # It may have begun a moment ago, or have lost its node.
    write_json(job / "status.json", {**(read_json(job / "status.json") or {}), "attempts": [{"from": "the beginning"}]})
    assert directory.look(job)["status"]["waiting"] == f"Slurm job 27 is RUNNING on s[1-2], {queue.MUTE}"


def test_an_answer_holds_for_a_while(slurm: dict[str, Any]) -> None:
    slurm["squeue"] = (0, RUNNING, "")
    assert queue.ask("27") == queue.ask("27")
    assert len(slurm["ran"]) == 1


def test_slurm_away(slurm: dict[str, Any], job: Path) -> None:
    slurm["squeue"] = AWAY
    seen = directory.look(job)["status"]
    assert seen["state"] == "running"
    assert seen["waiting"].startswith("Slurm does not answer: slurm_load_jobs error: Unable to contact")
    assert directory.running(job) is not None
    with pytest.raises(AwayError, match="connect failure"):
        queue.ask("27")


@pytest.mark.parametrize(
    ("squeue", "sacct", "state", "reason"),
    [
        ((0, CANCELLED, ""), NO_ACCOUNTING, "stopped", "its Slurm job 27 was cancelled"),
        ((0, "27|TIMEOUT|TimeLimit|x|s0\n", ""), NO_ACCOUNTING, "lost", "its Slurm job 27 reached its time limit"),
        ((0, "27|NODE_FAIL|NodeDown|x|s0\n", ""), NO_ACCOUNTING, "lost", "a node of its Slurm job 27 failed"),
        (FORGOTTEN, (0, "CANCELLED by 1000\n", ""), "stopped", "its Slurm job 27 was cancelled"),
        (
            FORGOTTEN,
            NO_ACCOUNTING,
            "lost",
            "Slurm does not know its job 27 any more, and its supervisor ended without a word",
        ),
    ],
)
def test_the_end_that_slurm_alone_knows_is_kept(
    slurm: dict[str, Any], job: Path, squeue: Any, sacct: Any, state: str, reason: str
) -> None:
    slurm.update(squeue=squeue, sacct=sacct)
    assert directory.look(job)["status"]["state"] == state
    # Slurm forgets it a few minutes later.
    slurm.update(squeue=FORGOTTEN, sacct=NO_ACCOUNTING)
    written = read_json(job / "status.json") or {}
    assert (written["state"], written["reason"]) == (state, reason)
    assert directory.running(job) is None


def test_a_script_that_slurm_could_not_start(slurm: dict[str, Any], job: Path) -> None:
    line = "slurmstepd-s0: error: job_manager: exiting abnormally: Slurmd could not execve job"
    (job / "supervise.log").write_text(f"slurmstepd-s0: error: task_g_set_affinity: Invalid argument\n{line}\n")
    slurm["squeue"] = (0, "27|COMPLETED|None|2026-11-28T02:58:19|s[0-1]\n", "")
    assert directory.look(job)["status"]["reason"] == (
        "its Slurm job 27 ended (COMPLETED), and its supervisor without a word; the last line of its supervise.log: "
        + line
    )


@pytest.mark.parametrize(
    ("cause", "state", "reason"),
    [
        ("", "stopped", "its Slurm job 27 was cancelled"),
        (" DUE TO TIME LIMIT", "lost", "its Slurm job 27 reached its time limit"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "lost", "a node of its Slurm job 27 failed"),
    ],
)
def test_the_end_that_a_node_writes_into_the_log(
    slurm: dict[str, Any], job: Path, cause: str, state: str, reason: str
) -> None:
    ends = "slurmstepd-s0: error: *** JOB {} ON s0 CANCELLED AT 2026-11-28T03:08:04{} ***\n"
    (job / "supervise.log").write_text(ends.format(26, " DUE TO TIME LIMIT") + ends.format(27, cause))
    slurm["squeue"] = FORGOTTEN
    seen = directory.look(job)["status"]
    assert (seen["state"], seen["reason"].partition(";")[0]) == (state, reason)


def test_stopping_a_pending_job_cancels_it(slurm: dict[str, Any], job: Path) -> None:
    slurm["squeue"] = (0, PENDING, "")
    assert ending.end(str(job), patience=1)["was_running"]
    assert slurm["ran"][-1] == "scancel 27"
    assert (read_json(job / "status.json") or {})["reason"] == "it was stopped on request"


def test_stopping_a_running_job_asks_its_supervisor(slurm: dict[str, Any], job: Path) -> None:
    slurm["squeue"] = (0, RUNNING, "")
    queue.stop(job, read_json(job / "status.json") or {})
    assert slurm["ran"][-1] == "scancel --batch --signal=USR1 27"
    slurm["scancel"] = (1, "", "scancel: error: Kill job error on job id 27: Access/permission denied\n")
    with pytest.raises(ValueError, match="Access/permission denied"):
        queue.stop(job, read_json(job / "status.json") or {})


def test_nothing_of_another_users_directory_is_run_or_changed(
    slurm: dict[str, Any], job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan can name any program."""
    status = {**(read_json(job / "status.json") or {}), "attempts": [{}]}
    write_json(job / "status.json", status)
    write_json(job / "plan.json", {"environment": str(job), "runtime": "anything"})
    slurm["squeue"] = FORGOTTEN
    monkeypatch.setattr(os, "getuid", lambda: job.stat().st_uid + 1)
    assert directory.look(job)["status"]["state"] == "lost"
    assert [words.split()[0] for words in slurm["ran"]] == ["squeue", "sacct"]
    assert read_json(job / "status.json") == status


def test_what_a_login_sets_for_slurms_commands_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_PARTITION", "SCANCEL_STATE", "SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_CONF"):
        monkeypatch.setenv(name, "main")
    _code, output, _errors = queue.run("env")
    assert "SLURM_CONF=main" in output
    assert not [line for line in output.splitlines() if line.startswith(queue.OF_A_LOGIN)]


@pytest.mark.parametrize("state", ["SUSPENDED", "COMPLETING"])
def test_a_job_that_does_not_run_now_is_not_mute(slurm: dict[str, Any], job: Path, state: str) -> None:
    write_json(job / "status.json", {**(read_json(job / "status.json") or {}), "attempts": [{}]})
    slurm["squeue"] = (0, f"27|{state}|None|2026-11-28T02:59:31|s[1-2]\n", "")
    assert directory.look(job)["status"]["waiting"] == f"Slurm job 27 is {state} on s[1-2]"


def test_a_status_of_another_kind_hides_no_other_job(slurm: dict[str, Any], job: Path) -> None:
    slurm["squeue"] = (0, RUNNING, "")
    for name, status in (("text", {"slurm": "x"}), ("pid", {"pid": None}), ("list", {"state": ["running"]})):
        (job.parent / name).mkdir()
        write_json(job.parent / name / "status.json", {**(read_json(job / "status.json") or {}), **status})
    (job.parent / "pipe").mkdir()
    os.mkfifo(job.parent / "pipe/status.json")
    (job.parent / "pipes").mkdir()
    write_json(job.parent / "pipes/status.json", {**(read_json(job / "status.json") or {}), "slurm": {}, "pid": 1})
    for name in ("ranks.json", "results.json", "job.json", "plan.json", "on_end.json", "log", "lock.node0.0"):
        os.mkfifo(job.parent / "pipes" / name)
    assert "demo" in [Path(each["path"]).name for each in directory.jobs(job.parent)]
