"""The cluster as the journeys see it: its settings in an inventory, objects, pods, and what is on the volume."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds
from support.checkout import ROOT
from support.cluster import EPHEMERAL, Play, job_file, words
from support.journeys import check
from support.kubernetes_node import kind, node, objects
from support.kubernetes_node.api import Client, Object

NAMESPACE = node.NAMESPACE
# What trains. On the nodes of 1.20 that is a PyTorchJob; a cluster by kind has the operator of the kind that is set.
KIND = os.environ.get("AMX_TEST_KIND", "PyTorchJob")
IS_CURRENT = "AMX_TEST_KIND" in os.environ
STORAGE = (kind.VOLUMES if IS_CURRENT else node.STATE / "volumes") / NAMESPACE
NODES = kind.WORKERS if IS_CURRENT else ("node-a", "node-b")
SETTINGS = EPHEMERAL / "inventory/kubernetes.yml"
SCRIPTS = ROOT / "jobs/scripts"
# What a job may have on a cluster.
KINDS = (
    (KIND, kinds.TRAINING[KIND].api_version),
    ("Job", "batch/v1"),
    ("Pod", "v1"),
    ("Service", "v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
)


def settings(**changes: Any) -> dict[str, Any]:
    """Return cluster_kubernetes: a pod of one CPU on each of the two nodes. A change to None leaves a field out."""
    image = json.loads(SETTINGS.read_text())["cluster"]["vars"]["cluster_kubernetes"]["image"] if built() else "none"
    made = {
        "kind": KIND,
        "kubeconfig": str(node.USER),
        "context": node.CONTEXT,
        "namespace": NAMESPACE,
        "image": image,
        "image_pull_policy": "Never",
        "workers": 2,
        "cpus": os.cpu_count(),
        "reserved_cpus": (os.cpu_count() or 2) - 1,
        "memory": "4Gi",
        "reserved_memory": "2Gi",
        "pvc": objects.CLAIM,
        "node_selector": {objects.LABEL: "true"},
        **changes,
    }
    return {name: value for name, value in made.items() if value is not None}


def built() -> bool:
    return SETTINGS.exists()


def write(image: str) -> None:
    """Write the inventory of the cluster with that image."""
    SETTINGS.parent.mkdir(parents=True, exist_ok=True)
    SETTINGS.unlink(missing_ok=True)
    group = {"vars": {"cluster_kubernetes": {**settings(), "image": image}}}
    SETTINGS.write_text(json.dumps({"cluster": group}))


def user() -> Client:
    return Client(node.USER)


def admin() -> Client:
    return Client(node.ADMIN)


def smoke(name: str, args: dict[str, Any] | None = None, **fields: Any) -> Path:
    """Write a job file: jobs/smoke.yml under that name, with other arguments and fields."""
    job = yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    job["args"].update(args or {})
    job.update(name=name, launcher="kubernetes", **fields)
    return job_file(job)


def play(name: str, *options: str, **changes: Any) -> Play:
    """Start a playbook, with other settings of the cluster where some are given."""
    other = ["-e", json.dumps({"cluster_kubernetes": settings(**changes)})] if changes else []
    return Play(name, *options, *other)


def left(job: str) -> list[str]:
    """Return the objects of a job on the cluster, each KIND NAME."""
    found = []
    for name, api in KINDS:
        listed = admin().list(name, api, NAMESPACE, f"amx.cluster/job={job}")
        listed += admin().list(name, api, NAMESPACE, f"training.kubeflow.org/job-name={job}")
        found += [f"{name} {one['metadata']['name']}" for one in listed]
    return sorted(set(found))


def pods(job: str) -> list[Object]:
    """Return the pods of a job that train, in the order of their names."""
    found = user().list("Pod", "v1", NAMESPACE, f"amx.cluster/job={job},amx.cluster/role=train")
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


def directory(job: str) -> Path:
    """Return the directory of the job's last start on the volume."""
    found = sorted((STORAGE / "jobs").glob(f"{job}-*"), key=lambda path: path.stat().st_mtime)
    check(found, f"the volume has no directory of {job}")
    return found[-1]


def read(job: str, name: str) -> dict[str, Any]:
    """Return a JSON file of the job's directory on the volume; empty while there is none."""
    try:
        content: dict[str, Any] = json.loads((directory(job) / name).read_text())
    except (OSError, ValueError):
        return {}
    return content


def refused(name: str, said: list[str], job: Path, **changes: Any) -> str:
    """Start train.yml, which must refuse the job with these texts and leave nothing; return what it said."""
    output = words(play("train", "-e", f"job={job}", **changes).fail())
    for text in said:
        check(text in output, f"{name}: {text!r} is not in: {output[-3000:]}")
    remains = left(json.loads(job.read_text())["name"])
    check(not remains, f"{name}: left on the cluster: {remains}")
    return output
