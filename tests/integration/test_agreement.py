"""What is asked on a terminal before hosts are changed, and what each answer does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from support import checkout, playbooks
from support.local_cluster import LocalCluster
from support.terminal import Command


def asked(cluster: LocalCluster, answer: str, *words: str) -> tuple[int, str]:
    """Run a playbook on a terminal; return its exit code and what it printed, with blanks for line breaks."""
    env = {**checkout.environment(), "PWD": str(cluster.folder), "TERM": "xterm"}
    playbook = [playbooks.PLAYBOOK, "-i", "hosts.yml", *words]
    command = Command(playbook, cluster.folder, env, 300)
    text = "".join(written for _at, written in command.output(300, answer))
    return command.end(), " ".join(text.split())


@pytest.mark.parametrize(("answer", "is_removed"), [("n\r", False), ("\r", False), ("\x03", False), ("y\r", True)])
def test_a_reset(tmp_path: Path, answer: str, is_removed: bool) -> None:
    cluster = LocalCluster(tmp_path)
    made = cluster.prefix / "cache/models/bert-0123456789ab"
    _ownership.make(made, "copied files")
    code, text = asked(cluster, answer, "-e", "reset=data", str(checkout.ROOT / "playbooks/reset.yml"))
    assert "Remove data on 1 host? [y/N]" in text
    assert (code == 0, made.exists()) == (is_removed, not is_removed), text
    assert ("Nothing was removed on any host." in text) != is_removed


def test_a_reset_without_a_question(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    made = cluster.prefix / "cache/models/bert-0123456789ab"
    _ownership.make(made, "copied files")
    code, text = asked(cluster, "n\r", "-e", "reset=data amx_yes=true", str(checkout.ROOT / "playbooks/reset.yml"))
    assert (code, made.exists(), "[y/N]" in text) == (0, False, False), text


def test_hosts_are_not_set_up_without_a_yes(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    new = tmp_path / "new"
    database = Path(shutil.copy(shutil.which("sleep") or "", tmp_path / "postgres"))
    with subprocess.Popen([database, "300"]) as process:
        code, text = asked(cluster, "n\r", "-e", f"cluster_prefix={new}", str(checkout.ROOT / "site.yml"))
        process.kill()
    assert f"directories {new}: all that is installed, for" in text
    assert "other use runs postgresql" in text
    assert "Nothing was changed on any host." in text
    assert (code == 0, new.exists()) == (False, False)


@pytest.mark.parametrize(("state", "is_listed"), [("present", True), ("absent", False)])
def test_what_is_not_requested_is_not_listed(tmp_path: Path, state: str, is_listed: bool) -> None:
    words = ["-e", f"cluster_prefix={tmp_path / 'new'} cluster_become=true host_tuning_state={state}"]
    _code, text = asked(LocalCluster(tmp_path), "n\r", *words, str(checkout.ROOT / "site.yml"))
    assert "Nothing was changed on any host." in text
    assert ["/etc/security/limits.d" in text, "amx-cluster-shm.service" in text] == [is_listed, is_listed], text
