"""The values of a job's secrets reach its ranks and nothing else: real runs of the playbooks, with -vvv.

With a stand-in for mpirun (support/local_cluster.py); molecule/jobs has the real one on three hosts.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.local_cluster import LocalCluster

# By kind: from the inventory's vault, from `env` of the job file, from `env` for one start, and in a URL.
VALUES = {
    "FROM_INVENTORY": "first-value-7f3a9c",
    "FILE_API_KEY": "second-value-1b8e2d",
    "GIVEN_PASSWORD": "sixth-value-9a7b5c",
    "SOME_PROXY": "http://me:third-value-5c6f0a@proxy.example:3128",
}
# Goes on when it may: until then there is time to look at its processes.
SCRIPT = """
import json, os, pathlib, sys, time
values = {name: os.environ.get(name) for name in json.loads(sys.argv[2])}
umask = os.umask(0o077)
os.umask(umask)
pathlib.Path(os.environ["SEEN"]).write_text(json.dumps({"values": values, "umask": umask, "pid": os.getpid()}))
end = time.monotonic() + 120
while not os.path.exists("go") and time.monotonic() < end:
    time.sleep(0.1)
"""


class Cluster(LocalCluster):
    """A cluster with a vault, and a job that gets secrets in every way there is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"job_env": {"FROM_INVENTORY": "{{ vault_first }}"}})
        self.seen = folder / "seen.json"
        self.job = self.directory("quiet")
        (folder / "password").write_text("of the vault")
        (folder / "group_vars").mkdir()
        vault = folder / "group_vars" / "cluster.yml"
        vault.write_text(yaml.safe_dump({"vault_first": VALUES["FROM_INVENTORY"]}))
        encrypt = [str(Path(sys.executable).with_name("ansible-vault")), "encrypt", "--vault-password-file=password"]
        subprocess.run([*encrypt, str(vault)], cwd=folder, check=True, capture_output=True)
        override = {"override": {"env": {"GIVEN_PASSWORD": VALUES["GIVEN_PASSWORD"]}}}
        (folder / "override.yml").write_text(yaml.safe_dump(override))

    def make_job(self, **fields: Any) -> None:
        env = {name: VALUES[name] for name in ("FILE_API_KEY", "SOME_PROXY")}
        self.write_job(
            "quiet",
            SCRIPT,
            **{
                "args": {"names": json.dumps(list(VALUES))},
                "env_from": ["FROM_INVENTORY"],
                "env": {**env, "SEEN": str(self.seen)},
                **fields,
            },
        )

    def play(self, name: str, *options: str, output: str = "") -> subprocess.Popen[str]:
        given = ("--vault-password-file=password", "-vvv", "-e", "@override.yml", "-e", "job=quiet.yml")
        return super().play(name, *given, *options, output=output)


INDEX = "https://me:fourth-value-2d4e6f@127.0.0.1:9/simple"


def hidden_in(text: str) -> list[str]:
    """Those of the values that a text has; of a URL its password."""
    return [value for value in (*list(VALUES.values())[:3], "third-value-5c6f0a") if value in text]


def processes_with_values(what: str) -> set[int]:
    """The processes whose command line or environment (cmdline, environ) has one of the values."""
    found = set()
    for path in Path("/proc").glob(f"[0-9]*/{what}"):
        try:
            if hidden_in(path.read_bytes().decode(errors="replace")):
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def files_with_values(folder: Path) -> set[str]:
    """The files below a directory that have one of the values."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.name for path in files if hidden_in(path.read_bytes().decode(errors="replace"))}


def open_to_others(folder: Path) -> set[str]:
    """What other users may read, write or run of a directory."""
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    return {str(path) for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_values_reach_the_ranks_and_nothing_else(cluster: Cluster) -> None:
    cluster.make_job()
    before = os.umask(0o022)
    try:
        play = cluster.play("train")
    finally:
        os.umask(before)
    end = time.monotonic() + 240
    while not cluster.seen.exists() and play.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(1)
    assert play.poll() is None, cluster.output("train")[-8000:]
    seen = json.loads(cluster.seen.read_text())
    cmdline, environ = processes_with_values("cmdline"), processes_with_values("environ")
    files, open_files = files_with_values(cluster.job), open_to_others(cluster.job)
    (cluster.job / "go").touch()
    cluster.succeed("train", play)
    assert seen["values"] == VALUES
    assert seen["umask"] == 0o022
    assert (cmdline, environ) == (set(), {seen["pid"]})
    assert files == {"secrets.json"}
    assert open_files == set()
    assert files_with_values(cluster.prefix) == set()  # it has ended
    assert hidden_in(cluster.output("train")) == []
    assert "FROM_INVENTORY" in cluster.output("train")

    (cluster.job / "secrets.json").write_text(json.dumps(VALUES))  # as if it could not be removed
    own = cluster.folder / "results" / "quiet.tar"
    own.parent.mkdir()
    own.write_text("of the user")
    cluster.succeed("results", cluster.play("results", "-e", f"job_results={cluster.folder}/results"))
    assert own.read_text() == "of the user"
    assert sorted(path.name for path in own.parent.iterdir()) == ["quiet", "quiet.tar"], "what was packed is left"
    assert not list((cluster.prefix / "jobs").glob(".quiet.*.results"))
    assert files_with_values(cluster.folder / "results") == set()
    assert (cluster.folder / "results" / "quiet" / "results.json").exists()
    assert hidden_in(cluster.output("results")) == []
    assert files_with_values(cluster.prefix) == set()

    # As a host has them that did not answer when its job ended, and the head's status.
    (cluster.job / "secrets.json").write_text(json.dumps(VALUES))
    status = json.loads((cluster.job / "status.json").read_text())
    (cluster.job / "status.json").write_text(json.dumps({**status, "secrets_left": ["node0"]}))
    cluster.succeed("check", cluster.play("status", "--check", output="check"))
    assert files_with_values(cluster.prefix) == {"secrets.json"}
    assert "node0 did not answer at its end" in cluster.output("check")
    for output, removed in (("status", True), ("status again", False)):
        cluster.succeed(output, cluster.play("status", output=output))
        assert files_with_values(cluster.prefix) == set()
        assert ("node0 had secrets of ended jobs" in cluster.output(output)) is removed
        assert "did not answer" not in cluster.output(output)
    cluster.succeed("plan", cluster.play("plan"))
    for output in ("status", "plan"):
        assert hidden_in(cluster.output(output)) == []


def test_passwords_of_package_indexes_are_not_shown(cluster: Cluster) -> None:
    """No index answers, so that site.yml fails when it collects the wheels."""
    cluster.make_job(requirements=["not-there==1"], env_from=[], env={})
    options = {
        "torch_stack_index_url": INDEX,
        "torch_stack_catalogue": {"native": {"index_urls": [INDEX], "find_links": [INDEX]}},
        "torch_stack_index_proxy": INDEX.removesuffix("simple"),
        "torch_stack_index_timeout": 1,
        "torch_stack_index_credentials": [{"host": "127.0.0.1", "user": "me", "password": "fourth-value-2d4e6f"}],
        "torch_stack_wheelhouse": str(cluster.folder / "wheelhouse"),
    }
    (cluster.folder / "options.yml").write_text(yaml.safe_dump(options))
    for name, tags in {"site": ["--tags=torch_stack"], "train": []}.items():
        assert cluster.play(name, "-e", "@options.yml", *tags).wait(300) == 2
        output = cluster.output(name)
        assert "https://***@127.0.0.1:9/simple" in output, output[-8000:]
        assert "fourth-value" not in output


@pytest.mark.parametrize("playbook", ["plan", "train"])
def test_a_secret_that_is_missing_is_refused_before_anything_has_changed(cluster: Cluster, playbook: str) -> None:
    cluster.make_job(env_from=["FROM_INVENTORY", "NOT_THERE"])
    assert cluster.play(playbook).wait(300) == 2
    output = " ".join(cluster.output(playbook).split())
    assert "env_from names NOT_THERE, " in output and "(it has FROM_INVENTORY)" in output
    assert hidden_in(output) == []
    assert not cluster.job.parent.exists()
