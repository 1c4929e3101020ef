from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    checkpoints,
    directory,
    in_use,
    inference_requests,
)
from support.patience import started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs" / "demo"
    made.mkdir(parents=True)
    return made


@pytest.fixture(params=directory.SUPERVISE)
def supervisor(folder: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of a process that is started as a job's supervisor is, and waits."""
    (folder / request.param).write_text("print(flush=True); input()")
    with started([sys.executable, "-IS", request.param, f"{folder}/"], cwd=folder) as process:
        yield process.pid


def write_status(folder: Path, **status: Any) -> None:
    (folder / "status.json").write_text(json.dumps({"job": "demo", "state": "running", **status}))


@pytest.mark.slow
def test_running(folder: Path, supervisor: int) -> None:
    assert directory.running(folder) is None
    assert not directory.is_alive(supervisor, folder.parent)
    write_status(folder, pid=supervisor)
    assert directory.running(folder) == {"job": "demo", "state": "running", "pid": supervisor}
    write_status(folder, pid=supervisor, state="succeeded")
    assert directory.running(folder) is None
    for other in (os.getpid(), 2**22 + 1):  # the second is above the largest process number
        write_status(folder, pid=other)
        assert directory.running(folder) is None


def test_set_aside(folder: Path) -> None:
    assert directory.set_aside(folder.with_name("none")) is None
    (folder / "plan.json").touch()
    os.utime(folder / "plan.json", (0, 1_700_000_000))
    aside = folder.with_name("demo.20231114T221320Z")
    assert directory.set_aside(folder) == aside
    aside.mkdir()
    assert directory.set_aside(folder) == folder.with_name("demo.20231114T221320Z.1")
    (folder / "plan.json").unlink()
    os.utime(folder, (0, 0))
    assert directory.set_aside(folder) == folder.with_name("demo.19700101T000000Z")


def test_create(folder: Path) -> None:
    made = folder.with_name("new")
    files = {"launch.sh": "exit 0\n", "observe/a.py": "\u00e9", "tool": "#!/bin/sh\n"}
    directory.create(made, files, {"models/minilm": "/opt/model"})
    assert {str(path.relative_to(made)) for path in made.rglob("*") if not path.is_dir()} == {
        "launch.sh",
        "observe/a.py",
        "tool",
        "models/minilm",
        _ownership.MARK,
    }
    mark = _ownership.read(made)
    assert (mark["what"], mark["names"]) == ("job", [_ownership.MARK, "launch.sh", "models", "observe", "tool"])
    assert (made / "observe/a.py").read_text(encoding="utf-8") == "\u00e9"
    assert (made / "models/minilm").readlink() == Path("/opt/model")
    modes = {name: (made / name).stat().st_mode & 0o777 for name in files}
    assert modes == {"launch.sh": 0o700, "observe/a.py": 0o600, "tool": 0o700}


def test_create_replaces_nothing_and_clears_what_was_left_half_made(folder: Path) -> None:
    (folder / "log").touch()
    with pytest.raises(OSError, match="not empty"):
        directory.create(folder, {"a": ""}, {})
    assert [path.name for path in folder.iterdir()] == ["log"]
    (folder / "log").unlink()
    directory.create(folder, {"b": ""}, {})  # the attempt above left .demo.part with a file a
    assert {path.name for path in folder.iterdir()} == {"b", _ownership.MARK}


def test_create_leaves_nothing_after_ctrl_c(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(part: Path, *_words: object) -> None:
        (part / "a").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(directory, "_fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        directory.create(folder, {"a": ""}, {})
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_no_job(folder: Path) -> None:
    error = (
        f"no job {folder.name} was started on this cluster: playbooks/status.yml lists all jobs "
        f"({folder} has no status.json)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        directory.look(folder)


@pytest.mark.slow
def test_look_at_a_running_job(folder: Path, supervisor: int) -> None:
    write_status(folder, pid=supervisor)
    (folder / "progress.json").write_text('{"step": 3}')
    (folder / "ranks.json").write_text('{"0": {"host": "node0"}}')
    (folder / "log").write_bytes(b"one\ntwo\nthr")
    seen = directory.look(folder)
    assert seen == {
        "status": {"job": "demo", "state": "running", "pid": supervisor},
        "progress": {"step": 3},
        "ranks": {"0": {"host": "node0"}},
        "outcome": {},
        "log": "one\ntwo\n",
        "log_offset": 8,
    }
    later = directory.look(folder, log_offset=8)
    assert (later["log"], later["log_offset"]) == ("", 8)


def test_a_job_whose_supervisor_is_gone_is_lost(folder: Path) -> None:
    write_status(folder, pid=os.getpid())
    (folder / "log").write_bytes(b"one\ntw")
    seen = directory.look(folder)
    reason = f"its supervisor (process {os.getpid()}) ended without a word; none of its ranks runs on this host"
    advice = "it left no complete checkpoint: ansible-playbook playbooks/train.yml -e job=demo.yml starts it anew"
    assert seen["status"] == {
        "job": "demo",
        "state": "lost",
        "pid": os.getpid(),
        "reason": reason,
        "advice": advice,
    }
    assert seen["log"] == "one\ntw"


def test_only_a_head_that_was_restarted_is_said_to_be(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1800000000\nprocesses 5\n")
    status = {"pid": 3, "started": "2027-01-15T07:59:00+00:00"}
    after = "its supervisor ended with its host, which was restarted at 2027-01-15 08:00:00 UTC"
    assert directory._lost(folder, status, tmp_path) == after
    later = {**status, "started": "2027-01-15T08:01:00+00:00"}
    assert "none of its ranks runs on this host" in directory._lost(folder, later, tmp_path)


@pytest.mark.slow
def test_ranks_whose_supervisor_is_gone_are_stopped_before_another_start(folder: Path, supervisor: int) -> None:
    """supervisor: has the command line of the process that runs launch.sh, too."""
    write_status(folder, pid=os.getpid(), launch_pid=supervisor)
    status = directory.look(folder)["status"]
    assert status["reason"].endswith("its ranks still run, and end within two minutes")
    assert status["advice"].startswith("playbooks/stop.yml -e job=demo ends its ranks now")


def test_what_to_do_with_a_job_that_ended_early(folder: Path) -> None:
    def advice(state: str) -> str | None:
        write_status(folder, pid=1, state=state)
        told: str | None = directory.look(folder)["status"].get("advice")
        return told

    assert [advice(state) for state in ("succeeded", "failed", "stopped")] == [None, None, None]
    (folder / "output" / "checkpoint-5").mkdir(parents=True)
    (folder / "output" / "checkpoint-5" / "model").write_text("weights")
    (folder / "output" / "checkpoint-5" / "complete.json").write_text('{"model": 7}')
    given = "-e '{override: {\"hosts\": 2}}'"
    (folder / "job.json").write_text(
        f'{{"job": {{"file": "/my/jobs/one.yml"}}, "settings": {{"given": {json.dumps(given)}}}}}'
    )
    start = "ansible-playbook playbooks/train.yml -e job=/my/jobs/one.yml"
    resumes = f"{start} -e job_resume=true {given} resumes it from its checkpoint-5"
    assert advice("succeeded") is None
    assert [advice(state) for state in ("failed", "stopped", "lost")] == [resumes] * 3
    # Of one that was moved aside another run has the name now.
    aside = folder.rename(folder.with_name("demo.20260101T000000Z"))
    assert "advice" not in directory.look(aside)["status"]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["running", "failed"])
def test_a_long_log_is_read_in_pieces(folder: Path, supervisor: int, state: str) -> None:
    write_status(folder, pid=supervisor, state=state)
    text = "first\nsecond\n" + "\rprogress" * 4 + "\nlast\n"  # a progress bar is one long line
    (folder / "log").write_bytes(text.encode())
    pieces, offset = [], 0
    while piece := directory.look(folder, offset, limit=10)["log"]:
        pieces.append(piece)
        offset += len(piece)
    assert "".join(pieces) == text
    assert pieces[0] == "first\n"
    assert directory.look(folder, -6)["log"] == "\nlast\n"
    assert directory.look(folder, -1000)["log"] == text
    assert directory.look(folder, 1 << 42)["log"] == ""


def test_create_takes_checkpoints_along(folder: Path) -> None:
    for step in (5, 10):
        checkpoint = folder / "output" / f"checkpoint-{step}"
        (checkpoint / "deep").mkdir(parents=True)
        (checkpoint / "deep" / "state").write_text("state")
    (folder / "output/checkpoint-5/complete.json").write_text('{"deep/state": 5}')
    (folder / "parts.json").write_text('{"node1": {"checkpoint-5": ["shard"]}}')
    (folder / "curves.jsonl").write_text('{"begin": 0}')
    made = folder.with_name("next")
    directory.create(made, {"a.sh": "#!/bin/sh"}, {"models/m": "/m"}, checkpoints.directories(folder / "output"))
    copy = made / "output" / "checkpoint-5"
    assert checkpoints.last_complete(made / "output") == copy
    # Linked: it may be large. Of the other one this host may have a part.
    for name in ("checkpoint-5", "checkpoint-10"):
        assert (made / "output" / name / "deep/state").samefile(folder / "output" / name / "deep/state")
    told: dict[str, Any] = {"directory": str(folder), "start": "", "hosts": [], "starts": [""]}
    told.update(ranks=None, accumulation=None, per_device=None)
    assert json.loads((made / "resumed.json").read_text()) == told
    for name in ("parts.json", "curves.jsonl"):
        assert (made / name).read_text() == (folder / name).read_text()
    write_status(folder, ranks=3, accumulation=2, per_device=8, hosts=3)
    (folder / "job.json").write_text('{"settings": {"start": "s"}}')
    (folder / "plan.json").write_text('{"hosts": [{"host": "node0"}, {"host": "node1"}]}')
    directory.create(folder.with_name("another"), {}, {}, checkpoints.directories(folder / "output"))
    told.update(start="s", starts=["s"], hosts=["node0", "node1"], ranks=3, accumulation=2, per_device=8)
    assert json.loads((folder.with_name("another") / "resumed.json").read_text()) == told


def test_what_a_run_without_ranks_has_linked_is_of_the_run_before(folder: Path) -> None:
    (folder / "output/checkpoint-5").mkdir(parents=True)
    (folder / "job.json").write_text('{"settings": {"start": "first"}}')
    (folder / "plan.json").write_text('{"hosts": [{"host": "node0"}, {"host": "node1"}]}')
    write_status(folder, ranks=2, attempts=[{"from": "the beginning"}])
    refused, last = folder.with_name("refused"), folder.with_name("last")
    directory.create(refused, {}, {}, checkpoints.directories(folder / "output"))
    (refused / "job.json").write_text('{"settings": {"start": "second"}}')
    write_status(refused, ranks=1, attempts=[])
    directory.create(last, {}, {}, checkpoints.directories(refused / "output"))
    found = json.loads((last / "resumed.json").read_text())
    assert (found["start"], found["starts"], found["ranks"]) == ("first", ["second", "first"], 2)
    assert found["hosts"] == ["node0", "node1"]
    write_status(refused, ranks=1, attempts=[{"from": "checkpoint-5"}])
    directory.create(folder.with_name("another"), {}, {}, checkpoints.directories(refused / "output"))
    found = json.loads((folder.with_name("another") / "resumed.json").read_text())
    assert (found["start"], found["starts"], found["ranks"]) == ("second", ["second", "first"], 1)


@pytest.mark.slow
def test_jobs_the_newest_first(folder: Path, supervisor: int) -> None:
    write_status(folder, pid=supervisor, started="2026-01-02T00:00:00+00:00")
    for name, since in {"old": "2026-01-01T00:00:00+00:00", "new": "2026-01-03T00:00:00+00:00"}.items():
        other = folder.with_name(name)
        other.mkdir()
        write_status(other, pid=os.getpid(), started=since)
    (folder / "progress.json").write_text('{"step": 3}')
    folder.with_name("never_started").mkdir()
    found = directory.jobs(folder.parent)
    assert [(Path(job["path"]).name, job["status"]["state"], job["progress"]) for job in found] == [
        ("new", "lost", {}),
        ("demo", "running", {"step": 3}),
        ("old", "lost", {}),
    ]
    assert directory.jobs(folder / "none") == []


@pytest.mark.parametrize(
    "status", ["{}", "[]", "", '{"state": "running", "job": "odd", "started": ""}', '{"state": "failed"}']
)
def test_a_damaged_status_keeps_no_other_job_from_being_shown(folder: Path, status: str) -> None:
    write_status(folder, state="failed", pid=1, started="2026-01-02T00:00:00+00:00", reason="")
    odd = folder.with_name("odd")
    odd.mkdir()
    (odd / "status.json").write_text(status)
    assert [Path(job["path"]).name for job in directory.jobs(folder.parent)] == ["demo"]


HOLD = """
import fcntl, sys
held = open(sys.argv[1], "wb")
fcntl.flock(held, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("shared", [False, True])
def test_locks_are_seen_as_long_as_their_processes_live(folder: Path, shared: bool) -> None:
    """Where hosts share the directories, this host's alone."""
    jobs = folder.parent
    settings = {"user": "ann", "since": "2026-01-01T00:00:00+00:00", "shared_directory": shared}
    (folder / "job.json").write_text(json.dumps({"settings": settings}))
    (folder / "lock.node1.1").touch()  # of a rank that is gone
    (jobs / "other").mkdir()
    (jobs / "other" / "lock.node1.0").touch()
    assert directory.locked_by(jobs, "node1") == []
    with started([sys.executable, "-c", HOLD, str(folder / "lock.node1.0")]):
        locked = [{"job": "demo", "user": "ann", "since": "2026-01-01T00:00:00+00:00"}]
        assert directory.locked_by(jobs, "node1") == locked
        assert directory.locked_by(jobs, "node1") == locked  # who looks does not lock
        assert directory.locked_by(jobs, "node2") == ([] if shared else locked)
        assert directory.is_locked(folder / "lock.node1.0")
        assert not directory.is_locked(folder / "lock.node1.1")
        assert directory.is_in_use(folder, "node1")
        assert directory.is_in_use(folder, "node2") is not shared
        assert directory.is_in_use(folder, "node") is not shared  # `node` is no beginning of a name
        assert not directory.is_in_use(jobs / "other", "node1")
    assert directory.locked_by(jobs, "node1") == []


def test_a_job_directory_is_for_one_run(folder: Path) -> None:
    (folder / "status.json").unlink(missing_ok=True)
    with directory.begin(folder, True, "node0"):
        with pytest.raises(ValueError, match="is running already"):
            directory.begin(folder, True, "node0")
        with pytest.raises(ValueError, match="was started a moment ago"), directory.replacing(folder):
            pass
        assert directory.is_in_use(folder, "node0")
    with directory.replacing(folder):
        (folder / "status.json").write_text("{}")
    with pytest.raises(ValueError, match="has run already"):
        directory.begin(folder, False, "node0")
    with directory.replacing(folder / "none"):
        assert not (folder / "none").exists()


def test_other_users_cannot_keep_a_job_from_being_started(folder: Path) -> None:
    lock = folder.with_name(f".{folder.name}.lock")
    lock.touch(0o644)
    for _ in range(2):
        with directory.replacing(folder):
            assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        lock.unlink(missing_ok=True)


def test_a_directory_that_is_about_to_be_started_is_not_replaced(folder: Path) -> None:
    (folder / "status.json").unlink(missing_ok=True)
    settings = {"head": "node0", "start": "1a", "user": "ann", "since": "now"}
    (folder / "job.json").write_text(json.dumps({"settings": settings}))
    with (
        pytest.raises(ValueError, match=r"ann is starting the job demo since now: .* start it in \d+ s"),
        directory.replacing(folder, "node0", "2b"),
    ):
        pass
    with pytest.raises(ValueError, match="was replaced by another start"):
        directory.begin(folder, True, "node0", "2b")
    for host, start in (("node0", "1a"), ("node1", "2b"), ("node0", "")):
        with directory.replacing(folder, host, start):
            pass
    os.utime(folder / "job.json", (0, 0))
    with directory.replacing(folder, "node0", "2b"):
        pass
    directory.begin(folder, True, "node0", "1a").close()


def test_a_log_that_is_too_long_loses_its_middle(folder: Path) -> None:
    write_status(folder, state="running", pid=os.getpid())
    log = folder / "log"
    line = b"x" * 1023 + b"\n"
    with log.open("ab") as writing:
        writing.write(b"first\n" + line * 2000)
        writing.flush()
        assert not directory.shorten_log(log, 4 << 20, 8192, 65536)
        if not directory.shorten_log(log, 1 << 20, 8192, 65536):
            pytest.skip("the file system of temporary files cannot punch holes")
        assert log.stat().st_blocks * 512 < 1 << 18
        writing.write(b"last\n")
    offset, text, looks = 0, "", 0
    while offset < log.stat().st_size:
        seen = directory.look(folder, offset)
        offset, text, looks = seen["log_offset"], text + seen["log"], looks + 1
    assert (text.split("\n", 1)[0], text[-5:]) == ("first", "last\n")
    assert "\0" not in text
    assert looks < 10
    assert directory.whole_log(log) == text


def test_a_prediction_is_resumed_by_its_own_playbook(tmp_path: Path) -> None:
    folder = tmp_path / "demo-predict"
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"job": {"script": str(inference_requests.PREDICTION)}}))
    status = {"job": "demo-predict", "state": "stopped", "reason": "", "pid": 1}
    (folder / "status.json").write_text(json.dumps(status))
    command = "the same command of playbooks/predict.yml"
    assert directory.look(folder)["status"]["advice"] == f"{command} predicts the rows"
    (folder / "output/predictions").mkdir(parents=True)
    (folder / "output/predictions/chunk-0000000").touch()
    assert directory.look(folder)["status"]["advice"] == f"{command} goes on with the rows that are predicted"
    (folder / "status.json").write_text(json.dumps({**status, "state": "failed"}))
    assert directory.look(folder)["status"]["advice"].startswith(f"once its reason is mended, {command} goes on")


@pytest.mark.slow
def test_secrets_that_no_job_has_a_use_for(folder: Path, supervisor: int) -> None:
    secrets = folder / "secrets.json"
    secrets.write_text("{}")
    assert directory.ended_with_secrets(folder.parent, "node1") == []  # the job is being started
    os.utime(secrets, (0, 0))
    assert directory.ended_with_secrets(folder.parent, "node1") == [str(secrets)]
    with (folder / "lock.node1.0").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert directory.ended_with_secrets(folder.parent, "node1") == []
    os.utime(secrets)
    write_status(folder, state="running", pid=supervisor)
    assert directory.ended_with_secrets(folder.parent, "node1") == []
    os.utime(secrets, (0, 0))  # nor after a day, on a head that has no ranks
    assert directory.ended_with_secrets(folder.parent, "node1") == []
    write_status(folder, state="failed")
    assert directory.ended_with_secrets(folder.parent, "node1") == [str(secrets)]


def test_secrets_in_a_shared_directory_are_those_of_the_jobs_head(folder: Path) -> None:
    """Elsewhere its supervisor is not seen."""
    secrets = folder / "secrets.json"
    secrets.write_text("{}")
    (folder / "job.json").write_text(json.dumps({"settings": {"shared_directory": True, "head": "node0"}}))
    write_status(folder, state="running", pid=2**22 + 1)
    assert directory.ended_with_secrets(folder.parent, "node2") == []
    write_status(folder, state="failed")
    assert directory.ended_with_secrets(folder.parent, "node2") == []
    assert directory.ended_with_secrets(folder.parent, "node0") == [str(secrets)]


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_new_directory_takes_the_place_at_once(
    folder: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a file system that cannot exchange two names. A start that did not begin is undone by the next one."""
    if not exchanges:
        monkeypatch.setattr("ctypes.CDLL", lambda *_words, **_more: object())
    (folder / "status.json").write_text('{"state": "succeeded"}')
    (folder / "model").write_text("trained")
    aside = directory.set_aside(folder)
    assert aside
    about = {"job.json": json.dumps({"settings": {"head": "node0", "start": "1a"}})}
    directory.create(folder, about, {}, aside=aside)
    assert (aside / "model").exists()
    assert not (folder / "model").exists()
    assert not directory.restore(folder, "2b")
    assert directory.restore(folder, "1a")
    assert (folder / "model").exists()
    assert not aside.exists()

    directory.create(folder, about, {}, aside=aside)
    os.utime(folder / "job.json", (0, 0))
    with directory.replacing(folder, "node0", "2b"):
        assert (folder / "model").exists()
    directory.create(folder, about, {}, aside=aside)
    (folder / "status.json").write_text('{"state": "failed"}')  # one that began is no start that failed
    assert not directory.restore(folder, "1a")
    assert not any(path.name.endswith((".part", ".between")) for path in folder.parent.iterdir())


@pytest.mark.slow
def test_one_directory_under_two_names_is_one_job(folder: Path, supervisor: int, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(folder.parent)
    other = tmp_path / "other" / folder.name
    write_status(folder, pid=supervisor)
    for path in (folder, other, Path(f"{other}/"), tmp_path / "other/.." / folder.parent.name / folder.name):
        assert directory.running(path), path
        assert directory.look(path)["status"]["state"] == "running"
    assert not directory.running(tmp_path / "none")


def test_secrets_of_a_job_that_is_being_started_stay(tmp_path: Path) -> None:
    """A host beside the head does not know that the job is prepared for a day; another start has the same path."""
    (job := tmp_path / "jobs/demo").mkdir(parents=True)
    secrets = job / "secrets.json"

    def write(start: str, age: float = 0) -> None:
        (job / "job.json").write_text(json.dumps({"settings": {"head": "node0", "start": start}}))
        secrets.write_text("{}")
        os.utime(secrets, (time.time() - age,) * 2)

    def removed(state: str, start: str, *left: str) -> list[str]:
        known = [{"start": start, "status": {"state": state, "secrets_left": list(left)}}]
        return directory.remove_ended_secrets(job.parent, "node1", known)

    write("1a", age=2 * directory.STARTED)
    assert removed("running", "1a") == []
    write("2b")
    assert removed("failed", "1a", "node1") == []  # of the run before
    assert removed("failed", "2b", "node2") == []
    assert secrets.exists()
    assert directory.remove_ended_secrets(job.parent, "node1", [], check=True) == []
    assert removed("failed", "2b", "node1") == [str(secrets)]
    assert not secrets.exists()
    write("3c", age=2 * directory.STARTED)
    assert removed("failed", "2b") == [str(secrets)]  # of a head that was lost


@pytest.mark.slow
def test_a_start_whose_process_works_in_the_directory_goes_on(folder: Path) -> None:
    (folder / "job.json").write_text(json.dumps({"settings": {"head": "node0", "start": "1a", "user": "anna"}}))
    (folder / "host").write_text("node0\n")
    os.utime(folder / "job.json", (time.time() - 3600,) * 2)
    assert not directory.starting(folder)
    (folder / "data").mkdir()
    with started([sys.executable, "-IS", "-c", "print(flush=True); input()"], cwd=folder / "data"):
        assert [used["job"] for used in in_use.in_use(folder.parent, "node0")] == [folder.name]
        with (
            pytest.raises(ValueError, match=r"^anna is starting the job"),
            directory.replacing(folder, "node0", "2b"),
        ):
            pass
        write_status(folder, pid=1, state="succeeded")  # such as a shell of a user's, in a job that has ended
        assert not in_use.in_use(folder.parent, "node0")
