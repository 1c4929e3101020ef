"""What a start of a job replaces, locks and says, with real playbooks: until its ranks have begun."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from support import playbooks
from support.local_cluster import LocalCluster
from support.patience import until

PREPARE = """
import os, pathlib, time
pathlib.Path("data").mkdir()
while not os.path.exists("go"):
    time.sleep(0.1)
pathlib.Path("data/rows").write_text("1")
"""
SCRIPT = """
import pathlib
pathlib.Path("output").mkdir()
pathlib.Path("output/model").write_text(pathlib.Path("data/rows").read_text())
"""


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path, workers={"node1": playbooks.LOCAL})


def prepared(cluster: LocalCluster, name: str, prepare: str = PREPARE, **fields: Any) -> str:
    (cluster.folder / f"{name}_prepare.py").write_text(prepare)
    return cluster.write_job(name, SCRIPT, prepare={"script": f"{name}_prepare.py"}, hosts=1, **fields)


def test_while_a_job_prepares_nothing_takes_its_directory_or_its_hosts(cluster: LocalCluster) -> None:
    file = prepared(cluster, "first")
    job = cluster.directory("first")
    train = cluster.play("train", "-e", f"amx_job={file}", output="train")
    until(lambda: (job / "data").exists(), 240)

    def ended(name: str, *options: str, output: str) -> str:
        assert cluster.play(name, *options, output=output).wait(240) is not None
        return " ".join(cluster.output(output).split())

    assert "is being prepared since" in ended("train", "-e", f"amx_job={file}", output="again")
    other = cluster.write_job("other", SCRIPT, hosts=1)
    assert "node0 is locked by job first" in ended("train", "-e", f"amx_job={other}", output="other")
    refused = ended("reset", "-e", "amx_reset=all,results", "-e", "amx_confirm=true", output="reset")
    assert job.is_dir(), refused
    assert "first" in refused
    assert "preparing the data, " in ended("status", "-e", "amx_job=first", output="status")
    (job / "go").touch()
    cluster.succeed("train", train)
    assert "preparing the data, " in cluster.output("train")
    assert (job / "output/model").read_text() == "1"

    # A second one that is killed with its control node's process leaves no lock, and is stopped.
    train = cluster.play("train", "-e", f"amx_job={file}", output="killed")
    until(lambda: not (job / "output").exists() and processes.find(job), 240)
    os.kill(train.pid, signal.SIGKILL)
    train.wait()
    assert "was stopped" in ended("stop", "-e", "amx_job=first", output="stop")
    assert json.loads((job / "status.json").read_text())["state"] == "stopped"
    assert "job first was not running" in ended("stop", "-e", "amx_job=first", output="stop again")
    ended("reset", "-e", "amx_reset=previous", "-e", "amx_confirm=true", output="previous")
    (aside,) = cluster.prefix.glob("jobs/first.2*")
    assert (aside / "output/model").exists(), "the only model of this name was removed"


def test_a_start_that_fails_leaves_the_previous_run_in_its_place(cluster: LocalCluster) -> None:
    file = cluster.write_job("first", SCRIPT.replace("data/rows", "first.py"), hosts=1)
    cluster.succeed("train", cluster.play("train", "-e", f"amx_job={file}", output="train"))
    job = cluster.directory("first")
    assert (job / "output/model").exists()
    python = cluster.prefix / "env/bin/python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/bin/false")  # the supervisor cannot start
    assert cluster.play("train", "-e", f"amx_job={file}", output="failed").wait(240)
    python.unlink()
    python.symlink_to(target)
    assert (job / "output/model").exists(), cluster.output("failed")
    assert [path.name for path in job.parent.iterdir() if not path.name.startswith(".")] == ["first"]
