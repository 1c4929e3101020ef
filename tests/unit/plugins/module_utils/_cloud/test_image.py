"""Keys and secrets of a host are out of the way while an image is made, and back afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cloud import image
from ansible_collections.amx.cluster.plugins.modules import cloud_image_files
from support import modules

SECRET = (
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_ed25519_key.pub",
    "etc/machine-id",
    "root/.ssh/authorized_keys",
    "home/ubuntu/.ssh/amx_cluster",
    "home/ubuntu/.cache/huggingface/token",
    "opt/amx cluster/jobs/squad/secrets.json",
)
OTHERS = ("etc/ssh/sshd_config", "home/ubuntu/train.py", "opt/amx cluster/jobs/squad/log")
HOMES = ["/root", "/home/ubuntu"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (*SECRET, *OTHERS):
        path = tmp_path / "host" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    return tmp_path / "host"


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_away_and_back(root: Path, tmp_path: Path) -> None:
    before, options = contents(root), {"root": str(root), "keep": str(tmp_path / "keep")}
    away = {**options, "state": "hidden", "homes": HOMES, "prefix": "/opt/amx cluster", "seconds": 60}
    answer = modules.run(cloud_image_files, **away)
    assert answer["changed"], answer
    assert set(contents(root)) == {*OTHERS, "etc/machine-id"}
    assert contents(root)["etc/machine-id"] == ""
    assert modules.run(cloud_image_files, **options, state="restored")["changed"]
    assert contents(root) == before
    assert not (tmp_path / "keep").exists()
    assert not modules.run(cloud_image_files, **options, state="restored")["changed"]


def test_all_is_back_when_nobody_moves_it_back(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 1)
    assert contents(root) != before
    end = time.monotonic() + 20
    while (tmp_path / "keep").exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert contents(root) == before


def test_an_interrupted_run(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    for _run in range(2):
        image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    assert image.restore(tmp_path / "keep")
    assert contents(root) == before


def test_while_a_job_runs(root: Path, tmp_path: Path) -> None:
    (root / "opt/amx cluster/jobs/squad/status.json").write_text('{"state": "running"}')
    with pytest.raises(ValueError, match=r"^job squad is running: wait for its end, or stop it with "):
        image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    assert not (tmp_path / "keep").exists()
