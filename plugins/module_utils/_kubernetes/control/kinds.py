# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of objects that a job has on Kubernetes, and the status of those that make its pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """Kind of objects that train. first_pod: the host name of its first pod. operator: what makes its pods, and
    installs that."""

    api_version: str
    first_pod: str
    operator: str = ""


TRAINING = {
    "PyTorchJob": Kind(
        "kubeflow.org/v1",
        "{name}-worker-0",
        "Kubeflow's training operator: kubectl apply --server-side -k "
        "'github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.0'",
    ),
    "TrainJob": Kind(
        "trainer.kubeflow.org/v1alpha1",
        "{name}-node-0-0.{name}",
        "Kubeflow Trainer: kubectl apply --server-side -k "
        "'github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.1.0'",
    ),
    "Job": Kind("batch/v1", "{name}-0.{name}"),
}
# {kind: its API} of what a job may have, as it is removed: the ConfigMap, by which the job is found, last.
OF_JOBS = {
    **{name: kind.api_version for name, kind in TRAINING.items()},
    "TrainingRuntime": TRAINING["TrainJob"].api_version,
    "Pod": "v1",
    "Service": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
}
# What jobs share.
SHARED = ("Namespace", "PersistentVolumeClaim")
# Conditions of an object that has ended.
SUCCEEDED, FAILED = ("Complete", "Succeeded"), ("Failed",)


def conclusion(item: Object) -> tuple[str, str, str]:
    """Return how an object ended: (succeeded or failed, reason such as DeadlineExceeded, message); empty while not."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in (*SUCCEEDED, *FAILED):
            state = "succeeded" if condition["type"] in SUCCEEDED else "failed"
            return state, str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", "", ""


def wanted(item: Object) -> int:
    """Return how many pods an object makes: a PyTorchJob, a TrainJob, or a Job, also the one that prepares."""
    spec = item.get("spec") or {}
    if item["kind"] == "PyTorchJob":
        return sum(int(replicas.get("replicas", 1)) for replicas in spec.get("pytorchReplicaSpecs", {}).values())
    return int(
        (spec.get("trainer", {}).get("numNodes") if item["kind"] == "TrainJob" else spec.get("completions")) or 1
    )


def prepares(item: Object, job: str) -> bool:
    """Return whether an object is the Job that prepares the data of a job. job: the name of its objects."""
    return item["kind"] == "Job" and item["metadata"]["name"] == f"{job}-prepare"
