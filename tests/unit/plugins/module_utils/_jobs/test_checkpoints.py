from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints


def checkpoint(output: Path, step: int, whole: bool = True) -> Path:
    """A checkpoint of two files, marked as written to its end or not."""
    folder = output / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "model").write_text("weights")
    (folder / "deep" / "state").write_text("state")
    if whole:
        (folder / "complete.json").write_text(json.dumps({"model": 7, "deep/state": 5}))
    return folder


def test_the_newest_by_its_step(tmp_path: Path) -> None:
    assert checkpoints.last_complete(tmp_path / "none") is None
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11, whole=False)
    checkpoint(tmp_path, 12).rename(tmp_path / "checkpoint-best")
    assert checkpoints.last_complete(tmp_path) == newest


@pytest.mark.parametrize("mark", ["", "{", "[]", "{}", "[1]", '{"model": 8, "deep/state": 5}', '{"other": 1}'])
def test_a_half_written_one_is_passed_over(tmp_path: Path, mark: str) -> None:
    folder = checkpoint(tmp_path, 3)
    assert checkpoints.is_complete(folder)
    (folder / "complete.json").write_text(mark)
    assert not checkpoints.is_complete(folder)
    assert checkpoints.last_complete(tmp_path) is None


def test_a_file_that_was_cut_off_or_lost(tmp_path: Path) -> None:
    cut, lost = checkpoint(tmp_path, 3), checkpoint(tmp_path, 4)
    (cut / "model").write_text("wei")
    (lost / "deep" / "state").unlink()
    assert not checkpoints.is_complete(cut)
    assert not checkpoints.is_complete(lost)
