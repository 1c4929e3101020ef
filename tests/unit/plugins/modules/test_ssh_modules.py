"""The modules of the SSH mesh as Ansible runs them, in check mode too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh
from ansible_collections.amx.cluster.plugins.modules import ssh_authorized_keys_info, ssh_key_pair_info
from support import modules

pytestmark = pytest.mark.slow


A = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
B = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"


def pair(directory: Path, **options: Any) -> dict[str, Any]:
    mesh = {"directory": str(directory), "name": "mesh", "host": "n1", "mesh": ["n0", "n1"]}
    return modules.run(ssh_key_pair_info, **mesh, **options)


def authorized(path: Path, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    mesh = {"path": str(path), "name": "mesh", "hosts": ["n0", "n1"], "_ansible_check_mode": check_mode}
    return modules.run(ssh_authorized_keys_info, **mesh, **options)


def source(**more: Any) -> list[dict[str, Any]]:
    return [{"host": "n0", "address": "10.0.0.1", "public_key": f"{A} comment", **more}]


def test_a_key_pair(tmp_path: Path) -> None:
    assert pair(tmp_path / "none")["use"] == "none"
    (tmp_path / "mesh.pub").write_text(f"{A} mesh@n1\n")
    answer = pair(tmp_path)
    assert (answer["changed"], answer["public_key"], answer["use"]) == (False, f"{A} mesh@n1", "unused")
    assert pair(tmp_path, sources=[A])["use"] == "shared"
    assert pair(tmp_path, exclusive=False)["use"] == "other"
    (tmp_path / "mesh_config").write_text("Host elsewhere\n")
    assert pair(tmp_path)["use"] == "other"


@pytest.mark.parametrize("check_mode", [False, True])
def test_keys_to_add_and_to_remove(tmp_path: Path, check_mode: bool) -> None:
    path = tmp_path / "authorized_keys"
    answer = authorized(path, check_mode, sources=source())
    line = f'restrict,pty,from="10.0.0.1" {A} mesh@n0'
    assert (answer["changed"], answer["lines"], answer["stale"]) == (False, [line], [])
    path.write_text(f"{line}\n{B} mesh@n0\n{B} mesh@gone\n{B} a person\n")
    assert authorized(path, check_mode, sources=source())["stale"] == [f"{B} mesh@n0", f"{B} mesh@gone"]
    assert authorized(path, check_mode, sources=source(), exclusive=False)["stale"] == [f"{B} mesh@n0"]
    assert authorized(path, check_mode, sources=source(), kept=[f"{B} mesh@n1"])["stale"] == []


def test_a_key_that_a_dry_run_has_not_generated(tmp_path: Path) -> None:
    for check_mode, pending, key in ((True, True, ssh_mesh.NO_KEY), (True, False, A), (False, True, A)):
        answer = authorized(tmp_path / "none", check_mode, sources=source(pending=pending))
        assert answer["lines"] == [f'restrict,pty,from="10.0.0.1" {key} mesh@n0']
    answer = authorized(tmp_path / "none", True, sources=source(pending=True, public_key=None))
    assert answer["lines"] == [f'restrict,pty,from="10.0.0.1" {ssh_mesh.NO_KEY} mesh@n0']


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mesh.pub").mkdir()
    assert pair(tmp_path)["msg"] == f"{tmp_path}/mesh.pub cannot be read: Is a directory"
    assert authorized(tmp_path, sources=source())["msg"] == f"{tmp_path} cannot be read: Is a directory"
