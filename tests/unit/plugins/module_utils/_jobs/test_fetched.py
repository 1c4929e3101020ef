"""What becomes of results on the control node that are fetched again."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import fetched


def packed(folder: Path, started: str) -> Path:
    made = folder / started
    made.mkdir(parents=True)
    (made / "results.json").write_text(json.dumps({"started": started}))
    with tarfile.open(folder / "results.tar", "w") as archive:
        archive.add(made, ".")
    return folder / "results.tar"


@pytest.mark.slow
def test_results_of_another_run_are_moved_aside(tmp_path: Path) -> None:
    to = tmp_path / "demo"
    assert fetched.unpack(packed(tmp_path / "a", "monday"), to, "monday") is None
    assert to.stat().st_mode & 0o777 == 0o700
    (to / "mine").touch()
    assert fetched.unpack(packed(tmp_path / "b", "monday"), to, "monday") is None, "those of the same run stay"
    assert (to / "mine").exists()
    aside = fetched.unpack(packed(tmp_path / "c", "tuesday"), to, "tuesday")
    assert aside is not None
    assert aside.name.startswith("demo.2")
    assert (aside / "mine").exists()
    assert json.loads((to / "results.json").read_text()) == {"started": "tuesday"}
    assert not (to / "mine").exists()


def test_results_are_private_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = subprocess.run

    def look(command: list[str], **options: Any) -> Any:
        seen.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.name.startswith(".demo."))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", look)
    fetched.unpack(packed(tmp_path / "a", "monday"), tmp_path / "demo", "monday")
    assert seen == [0o700]
    assert not list(tmp_path.glob(".demo.*"))


@pytest.mark.slow
def test_a_file_that_cannot_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "results.tar").write_text("no archive" * 200)
    with pytest.raises(ValueError, match=r"results\.tar cannot be unpacked: tar: "):
        fetched.unpack(tmp_path / "results.tar", tmp_path / "demo", "")
