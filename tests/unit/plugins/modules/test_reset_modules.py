"""The modules of a reset as Ansible runs them, in check mode too, and that they return what they document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset
from ansible_collections.amx.cluster.plugins.modules import reset_files, reset_info
from support import modules

KEY = "0123456789ab"


def make(prefix: Path) -> None:
    for name in (f"envs/native-cp311-{KEY}/bin/python", f"cache/models/bert-{KEY}/weights", "notes"):
        path = prefix / name
        unit = path.parents[1] if path.parent.name == "bin" else path.parent
        if name != "notes":
            _ownership.make(unit, "directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345")


def info(prefix: Path, **options: Any) -> dict[str, Any]:
    found = modules.run(reset_info, path=str(prefix), host="node0", ssh_directory=str(prefix / "ssh"), **options)
    assert found["changed"] is False
    return found


@pytest.mark.slow
def test_find(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    nothing = info(prefix)
    assert set(nothing["pieces"]) == set(reset.PIECES) - {"downloads"}
    assert nothing["pieces"]["ssh"] == {"paths": [], "marks": {}, "keys": 0}
    assert nothing["in_use"] == []
    make(prefix)
    pieces = info(prefix, pieces=["environments", "data"])["pieces"]
    env, model = f"{prefix}/envs/native-cp311-{KEY}", f"{prefix}/cache/models/bert-{KEY}"
    mark = "directory, by .amx-cluster.json in it"
    assert {piece: found.pop("bytes") > 5 for piece, found in pieces.items()} == {"environments": True, "data": True}
    assert pieces == {
        "environments": {"paths": [env], "marks": {env: mark}, "unmarked": []},
        "data": {"paths": [model], "marks": {model: mark}, "unmarked": []},
    }


@pytest.mark.slow
def test_remove(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "prefix"), "pieces": ["environments"]}
    assert modules.run(reset_files, **options)["exists"] is False
    make(tmp_path / "prefix")
    would = modules.run(reset_files, _ansible_check_mode=True, **options)
    assert (would["changed"], would["removed"]) == (True, [f"{tmp_path}/prefix/envs/native-cp311-{KEY}"])
    assert Path(would["removed"][0]).is_dir()
    removed = modules.run(reset_files, **options)
    assert (removed["changed"], removed["removed"]) == (True, would["removed"])
    assert removed["left"] == [f"{tmp_path}/prefix/{name}" for name in (".amx-cluster.json", "cache", "notes")]
    assert modules.run(reset_files, **options)["changed"] is False
