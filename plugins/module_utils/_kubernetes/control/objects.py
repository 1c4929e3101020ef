# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that every job has on Kubernetes, whatever trains it: volume, secret, files, the pod itself."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import quantities
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import PORT, Derived
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import (
    FAILED,
    JOB,
    PROGRAM,
    SCRATCH,
    STORAGE,
)

Object = dict[str, Any]

# A ConfigMap has at most 1 MiB, of which names and encoding take some.
MOST_FILES = 900_000
# Of what the prepare pod does: it downloads, and makes data with one process.
PREPARE_CPUS, PREPARE_MEMORY = 2, 8 * quantities.GI
USER = 1000
KEY = re.compile(r"[-A-Za-z0-9_][-._A-Za-z0-9]{0,199}")
MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "amx.cluster"
JOB_LABEL, ROLE_LABEL = "amx.cluster/job", "amx.cluster/role"
# On all objects of a job: which start of it they are of, who started it on which control node, and when.
START, BY_USER, SINCE = "amx.cluster/start", "amx.cluster/user", "amx.cluster/since"
TRAINS, PREPARES, READS = "train", "prepare", "reader"
# Where a container has its volumes, by their names.
MOUNTS = {"job": JOB, "storage": STORAGE, "scratch": SCRATCH, "shm": "/dev/shm"}
# Where the number of a pod among those of its job is: an annotation of an Indexed Job's pods, which those of a TrainJob
# are as well, and a label of a PyTorchJob's.
COMPLETION_INDEX, REPLICA_INDEX = "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index"


def lost_pods_only(container: str) -> Object:
    """Return the podFailurePolicy of a batch/v1 Job: a pod that has failed ends the job, a lost one is replaced.

    torchrun has restarted the ranks as often as the job allows when the command pod ends with this exit code.
    """
    return {
        "rules": [
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": container, "operator": "In", "values": [FAILED]},
            },
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
    }


def labels(job: str, role: str = "") -> dict[str, str]:
    """Return the labels of objects. job: the name of its objects, empty where all jobs are meant. role: of pods."""
    common = {"app.kubernetes.io/name": "amx-cluster", MANAGED_BY: MANAGER}
    return {**common, **({JOB_LABEL: job} if job else {}), **({ROLE_LABEL: role} if role else {})}


def metadata(derived: Derived, name: str = "") -> Object:
    """Return the metadata of an object in the job's namespace, by default with the job's name."""
    settings = derived.run.settings
    known = {START: settings.start, BY_USER: settings.user, SINCE: settings.since}
    return {
        "name": name or derived.name,
        "namespace": derived.settings.namespace,
        "labels": labels(derived.name),
        "annotations": {key: value for key, value in known.items() if value},
    }


def namespace(derived: Derived) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": derived.settings.namespace}}


def volume_claim(derived: Derived) -> Object:
    """Return the claim that all jobs of the namespace share: it is not labelled as one job's."""
    settings = derived.settings
    spec: Object = {
        "accessModes": [settings.access_mode],
        "resources": {"requests": {"storage": quantities.memory(settings.storage)}},
    }
    if settings.storage_class:
        spec["storageClassName"] = settings.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": settings.claim,
            "namespace": settings.namespace,
            "labels": {MANAGED_BY: MANAGER},
        },
        "spec": spec,
    }


def secret(derived: Derived, values: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(derived, derived.secret),
        "type": "Opaque",
        "stringData": dict(values),
    }


def key_of(path: str) -> str:
    """Return the key of a file in a ConfigMap: its name, or one made of its path where that is no key."""
    if KEY.fullmatch(path):
        return path
    digest = hashlib.sha256(path.encode()).hexdigest()[:8]
    return f"{re.sub('[^-.A-Za-z0-9]', '-', path)[-200:].lstrip('.')}.{digest}"


def config_map(derived: Derived, files: Mapping[str, bytes]) -> Object:
    """Return the ConfigMap with the files of a job, by their paths. Raises ValueError where they are too large."""
    # The API server stores each name once more, as that of a field which somebody has written.
    size = sum(len(data) + 2 * len(key_of(path)) for path, data in files.items())
    if size > MOST_FILES:
        largest = max(files, key=lambda path: len(files[path]))
        raise ValueError(
            f"the {len(files)} files of job {derived.run.job.name} have {size} bytes with their names (the largest is "
            f"{largest} with {len(files[largest])}), and a ConfigMap takes {MOST_FILES}: leave out what ranks do not "
            "need in .clusterignore, or copy data to the volume"
        )
    text, binary = dict[str, str](), dict[str, str]()
    for path, data in sorted(files.items()):
        try:
            text[key_of(path)] = data.decode("utf-8")
        except UnicodeDecodeError:
            binary[key_of(path)] = base64.b64encode(data).decode("ascii")
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(derived), "data": text}
    return {**made, "binaryData": binary} if binary else made


def service(derived: Derived) -> Object:
    """Return the headless Service by which the pods of an Indexed Job find the first one."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(derived),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: derived.name, ROLE_LABEL: TRAINS},
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def container(
    settings: Settings, name: str, action: str, resources: Object, mounts: Sequence[str] = tuple(MOUNTS)
) -> Object:
    """Return a container that runs the command pod."""
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [*PROGRAM, action],
        "env": [
            _field("AMX_CLUSTER_POD", "metadata.name"),
            _field("AMX_CLUSTER_NODE", "spec.nodeName"),
            {"name": "HOME", "value": SCRATCH},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": mount, "mountPath": MOUNTS[mount], **({"readOnly": True} if mount == "job" else {})}
            for mount in mounts
        ],
    }


def common_spec(settings: Settings, containers: list[Object], volumes: list[Object]) -> Object:
    """Return what every pod of the collection has, also the one by which the volume is read."""
    spec: Object = {
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
        "containers": containers,
        "volumes": volumes,
    }
    if settings.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in settings.tolerations]
    if settings.image_pull_secret:
        spec["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    return spec


def pod(derived: Derived, role: str, restart: str, containers: list[Object], files: Mapping[str, bytes]) -> Object:
    """Return the template of a pod. files: those of the ConfigMap. restart: empty where an operator decides that.

    Its /dev/shm counts as memory of the pod.
    """
    settings = derived.settings
    if derived.secret:
        containers = [{**container, "envFrom": [{"secretRef": {"name": derived.secret}}]} for container in containers]
    volumes = [
        {
            "name": "job",
            "configMap": {
                "name": derived.name,
                "items": [{"key": key_of(path), "path": path} for path in sorted(files)],
            },
        },
        {"name": "storage", "persistentVolumeClaim": {"claimName": derived.settings.claim}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantities.memory(derived.resources.shm)}},
    ]
    spec = {**({"restartPolicy": restart} if restart else {}), **common_spec(settings, containers, volumes)}
    if settings.node_selector and role == TRAINS:
        spec["nodeSelector"] = dict(settings.node_selector)
    return {"metadata": {"labels": labels(derived.name, role)}, "spec": spec}


def training_pod(
    derived: Derived, files: Mapping[str, bytes], name: str, index: str, restart: str, port: str = "rendezvous"
) -> Object:
    """Return the template of the pods that train. index: the field of a pod that has its number.

    name, port: of the container and its port, which operators know.
    """
    trains = container(derived.settings, name, "train", derived.resources.of_container())
    trains["env"].append(_field("AMX_CLUSTER_INDEX", index))
    trains["ports"] = [{"name": port, "containerPort": PORT, "protocol": "TCP"}]
    return pod(derived, TRAINS, restart, [trains], files)


def prepare(derived: Derived, files: Mapping[str, bytes]) -> Object:
    """Return the Job whose one pod puts models and data on the volume, and runs the job's own preparation."""
    memory = min(PREPARE_MEMORY, derived.resources.memory)
    cpus = str(min(PREPARE_CPUS, derived.resources.cpus))
    amounts = {"cpu": cpus, "memory": quantities.memory(memory)}
    prepares = container(derived.settings, "prepare", "prepare", {"requests": amounts, "limits": dict(amounts)})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(derived, f"{derived.name}-prepare"),
        "spec": {"backoffLimit": 2, "template": pod(derived, PREPARES, "Never", [prepares], files)},
    }
