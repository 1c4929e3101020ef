"""A cluster is taken away again: real runs of playbooks/reset.yml on a cluster of this machine, beside a running job.

With a stand-in for mpirun (support/local_cluster.py). SSH is left out: the keys would be those of this machine's user
(molecule/trust). Without root, kernel and firewall are, too (molecule/life).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from support.local_cluster import LocalCluster

SCRIPT = """
import os, pathlib, time
pathlib.Path("begun").touch()
end = time.monotonic() + 300
while not os.path.exists("go") and time.monotonic() < end:
    time.sleep(0.1)
"""


# Files of the user's, under names that the collection gives, too.
MINE = (
    "cache/fetched/mine",
    "cache/git/credential/socket",
    "cache/wheelhouse/cp311-0123456789ab/own.whl",
    "prefix/cache/models/mine-0123456789ab/weights",
    "prefix/cache/models/own/weights",
    "prefix/envs/mine-cp311-0123456789ab/bin/python",
    "prefix/jobs/verify.old/job.json",
    "prefix/notes",
)


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    made = LocalCluster(tmp_path, {"cluster_cache": str(tmp_path / "cache")})
    _ownership.make(made.prefix / "cache/models/bert-0123456789ab", "copied files")
    for path in (made.prefix / "cache/models/bert-0123456789ab/weights", *(made.folder / name for name in MINE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return made


def files(folder: Path) -> set[str]:
    """The files and links below a directory, but for the marks of the collection's directories."""
    found = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    return {str(path.relative_to(folder)) for path in found if not path.name.endswith(_ownership.MARK)}


def reset(cluster: LocalCluster, pieces: str, result: int = 0) -> str:
    """Run the playbook; return what it printed, with blanks for line breaks."""
    play = cluster.play("reset", *(["-e", f"reset={pieces}"] if pieces else []))
    assert play.wait(300) == result, cluster.output("reset")[-8000:]
    return " ".join(cluster.output("reset").split())


def changes(output: str) -> str:
    """The changes on node0, of the recap."""
    return re.findall(r"node0 : ok=\d+ changed=(\d+)", output)[0]


def test_reset_beside_a_running_job_and_after_it(cluster: LocalCluster) -> None:
    cluster.write_job("long", SCRIPT)
    play = cluster.play("train", "-e", "job=long.yml")
    job = cluster.directory("long")
    end = time.monotonic() + 240
    while not (job / "begun").exists() and play.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
    assert play.poll() is None, cluster.output("train")[-8000:]
    kept = {name for name in files(cluster.prefix) if not name.startswith("jobs/")}

    shown = reset(cluster, "")
    assert (
        "Nothing was removed. Name what to remove, such as ansible-playbook -i hosts.yml playbooks/reset.yml" in shown
    )
    assert "A reset would be refused now" in shown
    assert changes(shown) == "0"
    refused = reset(cluster, "all", result=2)
    assert "Nothing was removed on any host, because " in refused
    assert "- job long runs since" in refused
    assert "stop it: ansible-playbook -i hosts.yml playbooks/stop.yml -e amx_job=long" in refused
    assert {name for name in files(cluster.prefix) if not name.startswith("jobs/")} == kept
    site = cluster.play("site", "--tags", "verify")
    cluster.succeed("site", site)
    said = " ".join(cluster.output("site").split())
    verify = "run ansible-playbook -i hosts.yml playbooks/verify.yml afterwards"
    assert f"The plan is not verified, because long is running: {verify}" in said
    assert not cluster.directory("+verify").exists()
    (job / "go").touch()
    cluster.succeed("train", play)

    results = files(job)
    said = reset(cluster, "jobs,data,environments")
    assert changes(said) == "3"
    model, env = cluster.prefix / "cache/models/bert-0123456789ab", cluster.prefix / "envs/native-1"
    for piece, path, mark in (
        ("data", model, "copied files, by .amx-cluster.json in it"),
        ("environments", env, "virtual environment, by .amx-cluster.json in it"),
        ("environments", cluster.prefix / "env", "link, recorded in .env.amx-cluster.json"),
        ("stays", cluster.prefix / "cache/models/own", "it has no mark of the collection"),
    ):
        line = f"{piece} {path} {mark} node0"
        assert line in said, (line, cluster.output("reset"))
        assert said.index(line) < said.index("Remove models and datasets")
    assert files(job) == results  # complete
    left = {name.partition("/")[2] for name in MINE if name.startswith("prefix/")}
    assert {name for name in files(cluster.prefix) if not name.startswith("jobs/long/")} == left
    assert changes(reset(cluster, "jobs,results,data,downloads,environments")) == "1"
    assert files(cluster.prefix) == left
    assert {f"cache/{name}" for name in files(cluster.folder / "cache")} == {
        name for name in MINE if name.startswith("cache/")
    }
    assert changes(reset(cluster, "jobs,results,data,downloads,environments")) == "0"


def test_a_piece_that_there_is_not(cluster: LocalCluster) -> None:
    before = files(cluster.prefix)
    refused = reset(cluster, "venvs", result=2)
    assert "reset: venvs is not one of jobs, " in refused
    assert files(cluster.prefix) == before


def test_a_shared_directory_is_reset_for_all_hosts_only(tmp_path: Path) -> None:
    variables = {"cluster_cache": str(tmp_path / "cache"), "cluster_shared_dir": True}
    cluster = LocalCluster(tmp_path, variables, {"node1": {"ansible_connection": "local"}})
    before = files(cluster.prefix)
    play = cluster.play("reset", "--limit", "node1", "-e", "reset=environments")
    cluster.succeed("reset", play)
    said = " ".join(cluster.output("reset").split())
    assert f"{cluster.prefix} is shared with node0, which this run is not about: what is in it stays." in said
    assert files(cluster.prefix) == before
    assert changes(reset(cluster, "environments")) == "1"
    assert not cluster.prefix.exists()


def test_a_worker_is_reset_while_the_head_does_not_answer(tmp_path: Path) -> None:
    cluster = LocalCluster(
        tmp_path, {"cluster_cache": str(tmp_path / "cache")}, {"node1": {"ansible_connection": "local"}}
    )
    inventory = yaml.safe_load((tmp_path / "hosts.yml").read_text())
    inventory["cluster"]["children"]["head"]["hosts"]["node0"] = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    play = cluster.play("reset", "--limit", "node1", "-e", "reset=environments")
    assert play.wait(300) == 0, cluster.output("reset")[-8000:]
    assert "node0]: UNREACHABLE" in cluster.output("reset")
    assert not cluster.prefix.exists()
