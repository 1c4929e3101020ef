# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod by which the volume of jobs is read when none of their own pods runs."""

from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.derivation import JOB, PREFIX, SCRATCH, STORAGE
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.jobs import MANAGED_BY, MANAGER, READS
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.objects import JOB_LABEL, ROLE_LABEL, USER, Object
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.settings import Settings

PROGRAM = (f"{PREFIX}/env/bin/python", "-S", f"{PREFIX}/programs/pod.py")
# It packs a directory, and sends it, also where pods of other jobs have requested all CPUs of every node.
REQUESTS, LIMITS = {"cpu": "0", "memory": "128Mi"}, {"cpu": "1", "memory": "512Mi"}
# Whatever happens to the play that made it, it ends after so many seconds.
LONGEST = 3600
CLAIM = "amx-cluster"


def name_of(job: str = "") -> str:
    """Return the name of the pod. job: of its objects; empty where all jobs are meant."""
    return f"{job or CLAIM}-{READS}"


def pod(settings: Settings, job: str = "") -> Object:
    """Return the pod: it does nothing until commands are run in it, and needs no node with AMX."""
    labels = {"app.kubernetes.io/name": "amx-cluster", MANAGED_BY: MANAGER, ROLE_LABEL: READS}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LONGEST,
        "terminationGracePeriodSeconds": 1,
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
                "env": [{"name": "HOME", "value": SCRATCH}, {"name": "PYTHONUNBUFFERED", "value": "1"}],
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
            "name": name_of(job),
            "namespace": settings.namespace,
            "labels": {**labels, **({JOB_LABEL: job} if job else {})},
        },
        "spec": spec,
    }
