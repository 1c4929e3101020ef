# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod by which the volume of jobs is read when none of their own pods runs."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.jobs import MANAGED_BY, MANAGER
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    JOB_LABEL,
    READS,
    ROLE_LABEL,
    USER,
    Object,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.observed_pods import has_read
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import (
    JOB,
    PROGRAM,
    READER_ENDING,
    READER_SECONDS,
    SCRATCH,
    STORAGE,
)

# It packs a directory, and sends it, also where pods of other jobs have requested all CPUs of every node.
REQUESTS, LIMITS = {"cpu": "0", "memory": "128Mi"}, {"cpu": "1", "memory": "512Mi"}
CLAIM = "amx-cluster"
# The labels of all of these pods.
SELECTOR = f"{ROLE_LABEL}={READS},{MANAGED_BY}={MANAGER}"


def new_name(job: str = "") -> str:
    """Return a name for a pod that no other reading has. job: of its objects; empty where all jobs are meant."""
    return f"{job or CLAIM}-{READS}-{secrets.token_hex(4)}"


def ended(pods: Iterable[Object]) -> list[str]:
    """Return the names of reader pods that have ended without being removed: their plays were interrupted."""
    return sorted(str(one["metadata"]["name"]) for one in pods if has_read(one))


def pod(settings: Settings, name: str, job: str = "") -> Object:
    """Return the pod: it does nothing until commands are run in it, and needs no node with AMX.

    name: of the pod. job: see new_name. Whatever happens to the play that made it, it ends after an hour.
    """
    labels = {"app.kubernetes.io/name": "amx-cluster", MANAGED_BY: MANAGER, ROLE_LABEL: READS}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": READER_SECONDS,
        "terminationGracePeriodSeconds": READER_ENDING,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": READS,
                "image": settings.image,
                "imagePullPolicy": settings.image_pull_policy,
                "command": [*PROGRAM, "wait"],
                "env": [
                    {"name": POD, "value": name},
                    {"name": "HOME", "value": SCRATCH},
                    {"name": "PYTHONUNBUFFERED", "value": "1"},
                ],
                "resources": {"requests": dict(REQUESTS), "limits": dict(LIMITS)},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "storage", "mountPath": STORAGE},
                    {"name": "scratch", "mountPath": SCRATCH},
                    *([{"name": "job", "mountPath": JOB, "readOnly": True}] if job else []),
                ],
            }
        ],
        "volumes": [
            {"name": "storage", "persistentVolumeClaim": {"claimName": settings.pvc or CLAIM}},
            {"name": "scratch", "emptyDir": {}},
            # Its objects may have been removed, while its files are on the volume.
            *([{"name": "job", "configMap": {"name": job, "optional": True}}] if job else []),
        ],
    }
    if settings.tolerations:
        spec["tolerations"] = [dict(one) for one in settings.tolerations]
    if settings.image_pull_secret:
        spec["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": {**labels, **({JOB_LABEL: job} if job else {})},
        },
        "spec": spec,
    }
