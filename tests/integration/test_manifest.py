"""The playbook manifest.yml: a directory of files from an inventory and a job file, and what it refuses."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml
from support.kubernetes_jobs import GIVEN, judge
from support.local_cluster import LocalCluster

NODES = {**GIVEN, "kind": "PyTorchJob", "workers": 2, "node_selector": {}}


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path, {"cluster_kubernetes": NODES, "job_env": {"HF_TOKEN": "hf_value"}})


def test_files_for_git(cluster: LocalCluster) -> None:
    job = cluster.write_job("mine", "print(1)", ranks_per_node=2, restarts=1, env_from=["HF_TOKEN"])
    cluster.succeed("manifest", cluster.play("manifest", "-e", f"job={job}"))
    made = cluster.folder / "manifests" / "mine"
    assert sorted(path.name for path in made.iterdir()) == [
        "10-persistentvolumeclaim-amx-cluster.yml",
        "20-configmap-mine.yml",
        "30-pytorchjob-mine.yml",
    ]
    for path in made.iterdir():
        judge(yaml.safe_load(path.read_text()))
        assert "hf_value" not in path.read_text()
    said = cluster.output("manifest")
    assert "2 pod(s), 2 rank(s) each, 1 restart(s)" in said
    assert "the Secret with HF_TOKEN is not among the files" in said
    assert "changed=1 " in said

    cluster.succeed("manifest", cluster.play("manifest", "-e", f"job={job}", "-e", "with_secret=true"))
    assert "changed=0 " in cluster.output("manifest")
    assert "hf_value" not in cluster.output("manifest")
    secret = made / "secret.yml"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert yaml.safe_load(secret.read_text())["stringData"] == {"HF_TOKEN": "hf_value"}
    assert "secret.yml" in (made / ".gitignore").read_text().splitlines()


def test_as_json(cluster: LocalCluster) -> None:
    job = cluster.write_job("mine", "print(1)")
    words = ["-e", f"job={job}", "-e", "to=there", "-e", "format=json", "-e", "output=made.json"]
    cluster.succeed("manifest", cluster.play("manifest", *words))
    document = json.loads((cluster.folder / "made.json").read_text())
    assert document["derived"]["requests"] == document["derived"]["limits"] == {"cpu": "198", "memory": "121172Mi"}
    assert (document["derived"]["pods"], document["path"]) == (2, str(cluster.folder / "there"))


def test_refused(cluster: LocalCluster) -> None:
    job = cluster.write_job("mine", "print(1)", hosts=["node0"], wait=True)
    assert cluster.play("manifest", "-e", f"job={job}").wait(300) == 2
    said = cluster.output("manifest")
    assert "Job mine (" in said and "cannot run on Kubernetes:" in said
    assert "- hosts: node0 are hosts of the inventory" in said and "- wait: is for hosts" in said
    assert cluster.play("manifest").wait(300) == 2
    assert "no job was named: add -e amx_job=" in cluster.output("manifest")
    assert not (cluster.folder / "manifests").exists()


def test_wrong_settings_are_refused_by_every_playbook(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, {"cluster_kubernetes": {**NODES, "worker": 3, "memory": "128 GB"}})
    assert cluster.play("status").wait(300) == 2
    said = cluster.output("status")
    assert "- cluster_kubernetes: worker: unknown field; did you mean workers?" in said
    assert "- cluster_kubernetes: memory: '128 GB' is not " in said


def test_train_needs_a_kubeconfig(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, {"cluster_kubernetes": {**NODES, "kubeconfig": "/no/where/config"}})
    job = cluster.write_job("mine", "print(1)", launcher="kubernetes")
    assert cluster.play("train", "-e", f"job={job}").wait(300) == 2
    assert "there is no kubeconfig at /no/where/config" in cluster.output("train")


def test_plan_refuses_the_launcher(cluster: LocalCluster) -> None:
    job = cluster.write_job("mine", "print(1)", launcher="kubernetes")
    assert cluster.play("plan", "-e", f"job={job}").wait(300) == 2
    told = " ".join(cluster.output("plan").split())
    assert "launcher: kubernetes starts pods" in told
    for name in ("manifest", "train"):
        assert f"ansible-playbook -i hosts.yml playbooks/{name}.yml -e amx_job={cluster.folder / job}" in told
