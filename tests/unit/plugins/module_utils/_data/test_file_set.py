from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._data.file_set import Known


def fill(folder: Path) -> None:
    for name in ("config.json", "sub/weights.bin", ".cache/lock", ".gitattributes"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_listing(tmp_path: Path) -> None:
    fill(tmp_path)
    found = file_set.listing(tmp_path, Known(None))
    assert [entry["file"] for entry in found] == [".gitattributes", "config.json", "sub/weights.bin"]
    assert found[1] == {"file": "config.json", "sha256": hashlib.sha256(b"config.json").hexdigest(), "bytes": 11}
    before = file_set.key(found)
    assert re.fullmatch("[0-9a-f]{12}", before)
    (tmp_path / "config.json").write_text("CONFIG.JSON")
    assert file_set.key(file_set.listing(tmp_path, Known(None))) != before


def test_nothing_to_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^the folder {tmp_path} holds no files$"):
        file_set.listing(tmp_path, Known(None))
    with pytest.raises(ValueError, match=f"^there is no folder {tmp_path}/none$"):
        file_set.listing(tmp_path / "none", Known(None))


def test_changed(tmp_path: Path) -> None:
    fill(tmp_path)
    files = file_set.listing(tmp_path, Known(None))
    assert file_set.changed(tmp_path, files, Known(None)) == {}
    (tmp_path / "config.json").write_text("CONFIG.JSON")  # as long as before
    (tmp_path / "sub/weights.bin").unlink()
    assert file_set.changed(tmp_path, files, Known(None)) == {
        "config.json": "is damaged",
        "sub/weights.bin": "is missing",
    }
    assert file_set.changed(tmp_path, [{"file": "config.json", "sha256": "", "bytes": 3}], Known(None)) == {
        "config.json": "is damaged"
    }


def test_files_are_read_again_only_when_they_changed(tmp_path: Path) -> None:
    path, record = tmp_path / "a", tmp_path / "kept" / "record.json"
    path.write_text("one")
    os.utime(path, (1, 1))
    known = Known(record)
    first = known.sha256(path)
    known.save()
    path.write_text("two")
    os.utime(path, (1, 1))  # nobody could tell but by reading it
    assert Known(record).sha256(path) == first
    os.utime(path, (2, 2))
    assert Known(record).sha256(path) == hashlib.sha256(b"two").hexdigest()
    record.write_text("{")
    assert Known(record).sha256(path) == hashlib.sha256(b"two").hexdigest()


def test_by_folder() -> None:
    assert file_set.by_folder(["b/c/2", "a", "b/c/1", "b/d"]) == [
        ("", ["a"]),
        ("b", ["b/d"]),
        ("b/c", ["b/c/1", "b/c/2"]),
    ]
