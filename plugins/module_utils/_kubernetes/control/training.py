# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of objects that train, whatever their kind: whether they have ended, and which pod has which number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import objects, observed_pods

API_VERSIONS = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1", "TrainJob": "trainer.kubeflow.org/v1alpha1"}
# The container in which ranks run, by the kind.
CONTAINERS = {"Job": "train", "PyTorchJob": "pytorch", "TrainJob": "node"}
# Conditions of an object that has ended.
SUCCEEDED, FAILED = ("Complete", "Succeeded"), ("Failed",)


def is_training(one: Mapping[str, Any]) -> bool:
    """Tell whether an object trains: the Job that prepares a job's data does not."""
    name, job = one["metadata"]["name"], one["metadata"].get("labels", {}).get(objects.JOB_LABEL)
    return one["kind"] in API_VERSIONS and name == job


def runs_pods(one: Mapping[str, Any]) -> bool:
    """Tell whether an object of a job has pods: it trains, or prepares the job's data."""
    name, job = one["metadata"]["name"], one["metadata"].get("labels", {}).get(objects.JOB_LABEL)
    return is_training(one) or (one["kind"] == "Job" and name == f"{job}-prepare")


def ended(one: Mapping[str, Any]) -> str:
    """Return how an object has ended, succeeded or failed; an empty string while it has not."""
    for condition in one.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in (*SUCCEEDED, *FAILED):
            return "succeeded" if condition["type"] in SUCCEEDED else "failed"
    return ""


def failure(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of an object's failure, such as DeadlineExceeded; empty where it has not failed."""
    for condition in one.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in FAILED:
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", ""


def wanted(one: Mapping[str, Any]) -> int:
    """Return how many pods an object makes: a PyTorchJob, a TrainJob, or a Job, also the one that prepares."""
    spec = one.get("spec") or {}
    if one["kind"] == "PyTorchJob":
        return sum(int(replicas.get("replicas", 1)) for replicas in spec.get("pytorchReplicaSpecs", {}).values())
    return int((spec.get("trainer", {}).get("numNodes") if one["kind"] == "TrainJob" else spec.get("completions")) or 1)


def training_pods(pods: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Return the pods that train by their numbers; of several with the same one the newest."""
    found: dict[int, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=lambda one: one["metadata"].get("creationTimestamp") or ""):
        place = observed_pods.number_of(pod)
        if place >= 0:
            found[place] = pod
    return dict(sorted(found.items()))
