from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.modules import ssh_key_pair_info
from support import modules

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def run(directory: Path, **options: Any) -> dict[str, Any]:
    mesh = {"directory": str(directory), "name": "mesh", "host": "n1", "mesh": ["n0", "n1"]}
    return modules.run(ssh_key_pair_info, **mesh, **options)


def test_a_key_pair(tmp_path: Path) -> None:
    assert run(tmp_path / "none")["use"] == "none"
    (tmp_path / "mesh.pub").write_text(f"{KEY} mesh@n1\n")
    answer = run(tmp_path)
    assert (answer["changed"], answer["public_key"], answer["use"]) == (False, f"{KEY} mesh@n1", "unused")
    assert run(tmp_path, sources=[KEY])["use"] == "shared"
    assert run(tmp_path, exclusive=False)["use"] == "other"
    (tmp_path / "mesh_config").write_text("Host elsewhere\n")
    assert run(tmp_path)["use"] == "other"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mesh.pub").mkdir()
    assert run(tmp_path)["msg"] == f"{tmp_path}/mesh.pub cannot be read: Is a directory"
