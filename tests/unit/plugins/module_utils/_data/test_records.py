from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record, stamp


def test_other_files_are_dropped(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.json")
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        record.enter(tmp_path / name, stamp(tmp_path / name), name)
    record.keep_only([tmp_path / "b"])
    record.save()
    assert list(json.loads((tmp_path / "record.json").read_text())) == ["mark", str(tmp_path / "b")]
    assert list(Record(tmp_path / "record.json").entries) == [str(tmp_path / "b")]
