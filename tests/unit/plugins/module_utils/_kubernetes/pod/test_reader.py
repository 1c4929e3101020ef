"""What the control node reads of jobs on the volume."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import reader, supervisor
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import Places


@pytest.fixture
def volume(tmp_path: Path) -> Places:
    """Return the places of a pod without a job, on a volume with two of them."""
    for name, status in (
        ("words-1-abc", {"state": "failed", "reason": "x", "started": "2", "ended": "3"}),
        ("old-d-f", None),
    ):
        directory = tmp_path / "jobs" / name
        (directory / "output").mkdir(parents=True)
        (directory / "output/model").write_text("weights")
        if status:
            (directory / "status.json").write_text(json.dumps(status))
    return Places(storage=tmp_path, job=tmp_path / "none")


def read(volume: Places, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    reader.read(volume, words, "words-1-reader-1f")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    found: dict[str, Any] = json.loads(printed)
    return found


def test_jobs_of_the_volume(volume: Places, capsys: pytest.CaptureFixture[str]) -> None:
    (volume.storage / "jobs/old-d-f/kubernetes.json").write_text(json.dumps({"name": "old"}))
    (volume.storage / "jobs/old-d-f/job.json").write_text(json.dumps({"settings": {"start": "d-f"}}))
    (volume.storage / "jobs/.words-1-abc.tar").write_text("being packed")
    first, second = read(volume, capsys, "list")["jobs"]
    assert (first["name"], first["start"], first["state"], first["reason"]) == ("words-1", "abc", "failed", "x")
    assert first["bytes"] == len("weights") + len((volume.storage / "jobs/words-1-abc/status.json").read_text())
    assert (second["name"], second["start"], second["state"], second["started"]) == ("old", "d-f", "created", None)


def test_the_status_of_a_job(volume: Places, capsys: pytest.CaptureFixture[str]) -> None:
    told = read(volume, capsys, "status", "abc")
    assert (told["status"]["state"], told["directory"]) == ("failed", "jobs/words-1-abc")
    assert told["progress"] is told["ranks"] is told["outcome"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("status", "nothing"), r"nothing: the volume has no job in jobs/"),
        (("status", "../x"), r"'../x' is not a start of a job"),
        (("status",), r"has no job.json and kubernetes.json"),
        (("pack",), r"usage: pod pack START"),
    ],
)
def test_jobs_that_are_not_there(volume: Places, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reader.read(volume, words)


def test_a_job_is_asked_to_stop(volume: Places, capsys: pytest.CaptureFixture[str]) -> None:
    mark = volume.storage / "jobs/words-1-abc" / supervisor.STOP
    assert read(volume, capsys, "stop", "abc")["state"] == "failed"
    assert not mark.exists(), "it has ended already"
    (mark.parent / "status.json").write_text(json.dumps({"state": "running"}))
    assert read(volume, capsys, "stop", "abc")["state"] == "running"
    assert mark.exists()


def test_results_without_data_and_secrets(volume: Places, capsys: pytest.CaptureFixture[str]) -> None:
    directory = volume.storage / "jobs/words-1-abc"
    for name in ("data/train.csv", "pods/r/0.json", "models/m/x", "project/a.py", "output/data/kept"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    for name in (".beat", "secrets.json"):
        (directory / name).write_text("secret")
    packed = read(volume, capsys, "pack", "abc")
    path = Path(packed["path"])
    assert packed["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as tar:
        files = {member.name for member in tar if member.isfile()}
    assert files == {"./status.json", "./output/model", "./output/data/kept"}


@pytest.mark.slow
def test_two_readers_pack_the_same_directory(volume: Places) -> None:
    """Each has a file of its own, which goes with its pod; a pod that could not remove it has left it for the next."""
    directory = volume.storage / "jobs/words-1-abc"
    first, second = (Path(reader.pack(directory, f"words-1-reader-{one}")["path"]) for one in "ab")
    assert first != second
    theirs = directory.parent / ".packed-words-1-reader-d/words.tar"
    theirs.parent.mkdir()
    theirs.write_text("a person's")
    os.utime(theirs, (0, 0))
    with pytest.raises(ValueError, match=r"reader-d on the volume was not made by this pod"):
        reader.pack(directory, "words-1-reader-d")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    ends = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    ends.start()
    try:
        reader.wait(volume, "words-1-reader-b")
    finally:
        ends.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert first.exists()
    assert not second.exists()
    assert not second.parent.exists()
    os.utime(first, (0, 0))
    third = Path(reader.pack(directory, "words-1-reader-c")["path"])
    assert not first.exists()
    assert third.exists()
    assert theirs.exists(), "it has no mark"


def test_the_log(volume: Places, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    reader.read(volume, ("log", "abc"))
    assert capsysbinary.readouterr().out == b""
    (volume.storage / "jobs/words-1-abc/log").write_bytes(b"a\xff\n")
    reader.read(volume, ("log", "abc"))
    assert capsysbinary.readouterr().out == b"a\xff\n"


def test_a_volume_without_room_for_the_packed_directory(volume: Places) -> None:
    """What was written of it would stay, and take the rest of the volume that jobs write to."""
    directory = volume.storage / "jobs/words-1-abc"
    (directory / "output/model").write_text("w" * 100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError):
            reader.pack(directory, "words-1-reader-1f")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.name for path in directory.parent.iterdir()) == ["old-d-f", "words-1-abc"]
