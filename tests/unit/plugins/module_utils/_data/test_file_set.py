from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record


def fill(directory: Path) -> None:
    for name in ("config.json", "sub/weights.bin", ".cache/lock", ".gitattributes"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)


def test_listing(tmp_path: Path) -> None:
    fill(tmp_path)
    found = file_set.listing(tmp_path, Record())
    assert [entry["file"] for entry in found] == [".gitattributes", "config.json", "sub/weights.bin"]
    assert found[1] == {"file": "config.json", "sha256": hashlib.sha256(b"config.json").hexdigest(), "bytes": 11}
    before = file_set.key(found)
    assert re.fullmatch("[0-9a-f]{12}", before)
    (tmp_path / "config.json").write_text("CONFIG.JSON")
    assert file_set.key(file_set.listing(tmp_path, Record())) != before


def test_links_are_followed(tmp_path: Path) -> None:
    """Also those to directories; what leads nowhere is not left out silently."""
    fill(tmp_path / "elsewhere")
    data = tmp_path / "data"
    data.mkdir()
    (data / "train").symlink_to("../elsewhere/sub")
    (data / "config.json").symlink_to("../elsewhere/config.json")
    (data / ".hidden").symlink_to("../elsewhere/sub")
    assert [entry["file"] for entry in file_set.listing(data, Record())] == ["config.json", "train/weights.bin"]
    (data / "gone").symlink_to("../nowhere")
    with pytest.raises(ValueError, match=f"^{data}/gone is a symbolic link to ../nowhere, which does not exist: "):
        file_set.listing(data, Record())
    (data / "gone").unlink()
    (tmp_path / "elsewhere/sub/top").symlink_to(data)
    with pytest.raises(ValueError, match=f"^{data}/train/top is a symbolic link to a directory that it is in: remove"):
        file_set.listing(data, Record())


def test_a_directory_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    scandir = os.scandir

    def refuse(path: Path) -> object:  # root may read everything
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="sub"):
        file_set.listing(tmp_path, Record())


def test_nothing_to_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^the directory {tmp_path} has no files$"):
        file_set.listing(tmp_path, Record())
    with pytest.raises(ValueError, match=f"^there is no directory {tmp_path}/none$"):
        file_set.listing(tmp_path / "none", Record())


def test_differences(tmp_path: Path) -> None:
    fill(tmp_path)
    files = file_set.listing(tmp_path, Record())
    assert file_set.differences(tmp_path, files) == {}
    (tmp_path / "config.json").write_text("CONFIG.JSON")  # as long as before
    (tmp_path / "sub/weights.bin").unlink()
    found = file_set.differences(tmp_path, files)
    assert found == {"config.json": "is damaged", "sub/weights.bin": "is missing"}
    assert file_set.describe(found) == "config.json is damaged, sub/weights.bin is missing"
    assert file_set.differences(tmp_path, [{"file": "config.json", "sha256": "", "bytes": 3}]) == {
        "config.json": "is damaged"
    }


def test_files_are_read_again_only_when_they_changed(tmp_path: Path) -> None:
    path, record = tmp_path / "a", tmp_path / "kept" / "record.json"
    path.write_text("one")
    os.utime(path, (1, 1))
    known = Record(record)
    first = file_set.recorded_sha256(path, known)
    known.save()
    path.write_text("two")
    os.utime(path, (1, 1))  # nobody could tell but by reading it
    assert file_set.recorded_sha256(path, Record(record)) == first
    os.utime(path, (2, 2))
    assert file_set.recorded_sha256(path, Record(record)) == hashlib.sha256(b"two").hexdigest()
    record.write_text("{")
    assert file_set.recorded_sha256(path, Record(record)) == hashlib.sha256(b"two").hexdigest()
