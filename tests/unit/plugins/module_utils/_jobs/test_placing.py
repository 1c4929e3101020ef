"""A run's directory on a host: the results of others are never in its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import placing, reset
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
