from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io


def test_a_half_written_file_is_as_none(tmp_path: Path) -> None:
    assert _io.read_json(tmp_path / "none.json") is None
    (tmp_path / "half.json").write_text('{"a":')
    assert _io.read_json(tmp_path / "half.json") is None
    (tmp_path / "list.json").write_text("[]")
    assert _io.read_json(tmp_path / "list.json") is None


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("before")
    _io.write_json(path, {"a": 1}, 0o600)
    assert json.loads(path.read_text()) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret.json"]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        _io.write_text(path, "\udcff")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
