"""Keys and secrets of a host are out of the way while an image is made, and back afterwards."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cloud import image
from ansible_collections.amx.cluster.plugins.modules import cloud_image_files
from support import modules

pytestmark = pytest.mark.slow


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


def test_what_is_made_meanwhile_is_moved_aside(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    for name in ("home/ubuntu/.ssh/known_hosts", "home/ubuntu/.cache/huggingface/token/x", "opt/amx cluster/y"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("new")
    assert image.restore(tmp_path / "keep")
    after = contents(root)
    assert {name: after[name] for name in before} == before
    made = {name for name in after if ".made-during-image." in name}
    assert {Path(name).name for name in made} == {"known_hosts", "x"}


def test_one_path_that_cannot_be_restored_stops_no_other(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    (root / "etc/ssh").rename(root / "etc/ssh-there")
    (root / "etc/ssh").write_text("a file in the way")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        image.restore(tmp_path / "keep")
    assert "etc/ssh/ssh_host_ed25519_key could not be restored, and is in" in raised.value.stderr.decode()
    assert contents(root)["root/.ssh/authorized_keys"] == before["root/.ssh/authorized_keys"]
    assert (tmp_path / "keep/etc/ssh/ssh_host_ed25519_key").exists()


def test_a_reboot_meanwhile_restores_who_may_log_in(root: Path, tmp_path: Path) -> None:
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    shutil.rmtree(tmp_path / "keep")  # it was in memory
    subprocess.run(["sh", str(root / image.LOGINS / "boot.sh")], check=True)
    assert (root / "root/.ssh/authorized_keys").read_text() == "content of root/.ssh/authorized_keys"
    assert not (root / image.LOGINS).exists()
    assert not (root / image.UNIT).exists()


def test_a_host_of_the_image_lets_nobody_in_of_the_other(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "_uuid", lambda: "another")
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    subprocess.run(["sh", str(root / image.LOGINS / "boot.sh")], check=True)
    assert not (root / "root/.ssh/authorized_keys").exists()
    assert not (root / image.LOGINS).exists()


@pytest.mark.parametrize(
    "name",
    [
        *("home/anna/.ssh/id_ed25519", "home/u/.cache/huggingface/stored_tokens", "home/u/.docker/config.json"),
        *(
            "home/u/.zsh_history",
            "home/u/.kube/config",
            "home/u/.config/pip/pip.conf",
            "home/u/.pypirc",
            "etc/pip.conf",
        ),
        *("etc/pip.conf", "srv/build/.netrc", "srv/build/.config/gcloud/x", "home/u/.azure/t", "home/u/.psql_history"),
    ],
)
def test_secrets_of_every_user_are_hidden(root: Path, tmp_path: Path, name: str) -> None:
    (root / "etc/passwd").write_text("build:x:9:9::/srv/build:/bin/sh\nnobody:x:8:8::/:/bin/false\n")
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("SECRET")
    image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    assert not path.exists()
    image.restore(tmp_path / "keep")
    assert path.read_text() == "SECRET"


def test_while_ranks_of_a_worker_run(root: Path, tmp_path: Path) -> None:
    job = root / "opt/amx cluster/jobs/mine"
    job.mkdir()
    (job / "job.json").write_text('{"settings": {"head": "node0"}}')
    with (job / "lock.node1.0").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match=r"^job mine is running"):
            image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60, "node1")
    assert image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60, "node1")
    image.restore(tmp_path / "keep")


def test_away_and_back(root: Path, tmp_path: Path) -> None:
    before, options = contents(root), {"root": str(root), "keep": str(tmp_path / "keep")}
    away = {**options, "state": "hidden", "homes": HOMES, "prefix": "/opt/amx cluster", "seconds": 60}
    answer = modules.run(cloud_image_files, **away)
    assert answer["changed"], answer
    logins = {image.UNIT, f"{image.LOGINS}/boot.sh", f"{image.LOGINS}/0/authorized_keys"}
    assert {name for name in contents(root) if (root / name).exists()} == {*OTHERS, *logins, "etc/machine-id"} - {
        image.WANTED
    }
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
    (root / "opt/amx cluster/jobs/squad/status.json").write_text('{"state": "running", "pid": 1}')
    with pytest.raises(ValueError, match=r"^job squad is running: wait for its end, or stop it with "):
        image.hide(root, HOMES, "/opt/amx cluster", tmp_path / "keep", 60)
    assert not (tmp_path / "keep").exists()
