"""A run's directory on a host: the results of others are never in its way."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, placing, reset
from ansible_collections.amx.cluster.plugins.module_utils._jobs.placing import Placement


def make(path: Path, **options: Any) -> str:
    """Write the directory; return where the previous one was moved to."""
    placement = Placement(str(path), "node0", "1a", files={"job.json": "{}"}, **options)
    moved_to: str = placing.place(placement, "node0")["moved_to"]
    return moved_to


def with_results(path: Path) -> Path:
    make(path)
    (path / "log").write_text("step 1\n")
    (path / "output").mkdir()
    (path / "output/model").write_text("trained")
    return path


@pytest.mark.parametrize("name", ["verify", "network", "network-imb", "demo-tune-1", "demo-scale-1"])
def test_a_derived_job_in_its_place_leaves_the_results_of_a_job(tmp_path: Path, name: str) -> None:
    made = with_results(tmp_path / "jobs" / name)
    aside = make(made, keep_previous=False)
    assert aside, "the results were removed"
    assert (Path(aside) / "output/model").read_text() == "trained"
    assert reset.paths(tmp_path, "jobs") == sorted([tmp_path / f"jobs/.{name}.lock", made])
    assert reset.paths(tmp_path, "results") == [Path(aside)]


def test_a_job_keeps_its_results_whatever_its_name(tmp_path: Path) -> None:
    made = with_results(tmp_path / "jobs/verify")
    assert reset.paths(tmp_path, "results") == [made]
    assert reset.paths(tmp_path, "jobs") == [tmp_path / "jobs/.verify.lock"]


def test_a_derived_job_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "jobs/+verify"
    make(path, keep_previous=False)
    (path / "log").touch()
    assert make(path, keep_previous=False) == ""
    assert not (path / "log").exists()
    assert [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")] == ["+verify"]


def test_what_has_no_mark_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs/secrets.json").touch()
    moved = Path(make(tmp_path / "theirs", keep_previous=False))
    assert (moved / "secrets.json").exists()
    (tmp_path / "link").symlink_to(moved)
    assert Path(make(tmp_path / "link", keep_previous=False)).readlink() == moved
    assert (moved / "secrets.json").exists()


def start(path: Path, start: str, **options: Any) -> None:
    settings = {"head": "node0", "start": start}
    files = {"job.json": json.dumps({"settings": settings}), "train.py": f"# {start}\n"}
    placing.place(Placement(str(path), "node0", start, files, secrets={"TOKEN": "x"}, **options), "node0")


def ended(path: Path) -> Path:
    """Make the directory of a run that has ended."""
    start(path, "1a")
    (path / "status.json").write_text('{"state": "succeeded"}')
    (path / "log").touch()
    return path


def left(path: Path) -> list[str]:
    """Return the scripts among the job directories, and what else is there."""
    scripts = [script.read_text().strip("# \n") for script in path.parent.glob("*/train.py")]
    others = (entry.name for entry in path.parent.iterdir() if not entry.name.endswith((".lock", ".json")))
    return sorted([*scripts, *others])


@pytest.mark.parametrize("fails", ["_exchange", "close"])
def test_a_directory_that_cannot_be_replaced_stays(tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ended(tmp_path / "jobs/demo")
    real = getattr(directory, fails)

    def fail(*_words: object) -> None:
        monkeypatch.setattr(directory, fails, real)  # to put it back works
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(directory, fails, fail)
    with pytest.raises(ValueError, match=f"the job directory {path} cannot be created: .* busy$"):
        start(path, "2b")
    assert left(path) == ["1a", "demo"]
    assert (path / "log").exists()


@pytest.mark.parametrize("derived", [False, True])
def test_nothing_is_left_of_a_start_that_was_killed_in_the_middle(
    tmp_path: Path, derived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory has the name under which the previous run was to be kept then."""
    path = ended(tmp_path / "jobs/demo")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(directory, "_exchange", lambda *_words: (_ for _ in ()).throw(KeyboardInterrupt))
        start(path, "2b", keep_previous=not derived)
    (unplaced,) = path.parent.glob("demo.2*")
    assert (unplaced / "secrets.json").exists()
    start(path, "3c", keep_previous=not derived)
    assert left(path) == ["1a", "3c", "demo", unplaced.name]
    assert (unplaced / "log").exists()
    assert not (unplaced / "secrets.json").exists()
