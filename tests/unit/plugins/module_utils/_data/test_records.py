from __future__ import annotations

import json
import os
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record, stamp


def test_entries_last_until_the_file_changes(tmp_path: Path) -> None:
    file, path = tmp_path / "a", tmp_path / "kept" / "record.json"
    file.write_text("one")
    record = Record(path)
    assert (record.digest(file), record.is_current()) == (None, False)
    record.enter(file, stamp(file), "")  # no digest is known, and yet it is an entry
    assert (record.digest(file), record.is_current()) == ("", True)
    record.enter(file, stamp(file), "ab")
    record.save()
    assert (Record(path).digest(file), Record(path).is_current()) == ("ab", True)
    os.utime(file, (1, 1))
    assert (Record(path).digest(file), Record(path).is_current()) == (None, False)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    record = Record()
    record.enter(file, stamp(file), "ab")
    file.unlink()
    assert stamp(file) == []
    assert (record.digest(file), record.is_current()) == (None, False)


def test_other_files_are_dropped(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.json")
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        record.enter(tmp_path / name, stamp(tmp_path / name), name)
    record.keep_only([tmp_path / "b"])
    record.save()
    assert list(json.loads((tmp_path / "record.json").read_text())) == ["mark", str(tmp_path / "b")]
    assert list(Record(tmp_path / "record.json").entries) == [str(tmp_path / "b")]


def test_a_record_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text("{")
    assert Record(tmp_path / "half.json").entries == Record(tmp_path).entries == {}
