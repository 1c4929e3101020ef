# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's cluster_kubernetes: the cluster, the nodes and the volume that jobs use, checked completely."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    SWITCH,
    Form,
    Place,
    check_fields,
    declared,
    field,
    matching,
    one_of,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds, quantities

ACCESS_MODES = ("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
PULL_POLICIES = ("IfNotPresent", "Always", "Never")
# The label of node-feature-discovery for nodes whose CPUs multiply bfloat16 matrices with AMX.
AMX_LABEL = "feature.node.kubernetes.io/cpu-cpuid.AMXBF16"
BF16_LABELS = (AMX_LABEL, "feature.node.kubernetes.io/cpu-cpuid.AVX512BF16")
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _bytes(value: object, _place: Place) -> int:
    try:
        size = quantities.number(value)
    except ValueError:
        size = quantities.number("0")
    if size < quantities.MI:
        raise ValueError(f"{value!r} is not a quantity of memory of at least 1Mi, such as 128Gi")
    return int(size)


def _labels(value: object, _place: Place) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a mapping of labels, such as {{{AMX_LABEL}: 'true'}}")
    for key, item in value.items():
        if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a label's name")
        if not isinstance(item, str) or not LABEL_VALUE.fullmatch(item):
            raise ValueError(f"{key}: {item!r} is not a label's value: write it as text, such as 'true'")
    return dict(value)


def _tolerations(value: object, _place: Place) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(toleration, Mapping) for toleration in value):
        raise ValueError(f"{value!r} is not a list of tolerations, such as [{{key: training, operator: Exists}}]")
    known = {"key", "operator", "value", "effect", "tolerationSeconds"}
    for toleration in value:
        unknown = sorted(set(map(str, toleration)) - known)
        if unknown:
            raise ValueError(f"{unknown[0]}: unknown field of a toleration; known fields: {', '.join(sorted(known))}")
    return [dict(toleration) for toleration in value]


_MEMORY = Form({}, "a quantity", _bytes)
_NAME = matching(DNS_NAME, "a name of Kubernetes: lower-case letters, digits, '-' and '.'")
_IMAGE = matching(re.compile(r"[a-z0-9][\w./:@-]*"), "an image, such as registry.example.com/amx-cluster:native")
_CONTEXT = matching(re.compile(r"\S+"), "the name of a context in your kubeconfig")
_KUBECONFIG = matching(re.compile(r"\S(.*\S)?"), "the path of a kubeconfig on the control node")
_NAMESPACE = matching(DNS_LABEL, "a namespace: at most 63 lower-case letters, digits and '-'")


@dataclass(frozen=True)
class Settings:
    """cluster_kubernetes, valid. docs/kubernetes.md has each field.

    cpus, memory: of each node, CPUs as Linux counts them and bytes; reserved_cpus, reserved_memory: what of it pods
    leave, None for what kubelets usually keep. shm: bytes of /dev/shm, None for what follows from the job. numa_nodes:
    of how many a pod's CPUs are, for jobs with ranks_per_node: auto. context, kubeconfig: empty for the user's own.
    """

    image: str = field(_IMAGE)
    workers: int = field(whole(1))
    cpus: int = field(whole(2))
    memory: int = field(_MEMORY)
    kind: str = field(one_of(*sorted(kinds.TRAINING)), "Job")
    context: str = field(_CONTEXT, "")
    kubeconfig: str = field(_KUBECONFIG, "")
    namespace: str = field(_NAMESPACE, "default")
    create_namespace: bool = field(SWITCH, False)
    image_pull_policy: str = field(one_of(*PULL_POLICIES), "IfNotPresent")
    image_pull_secret: str = field(_NAME, "")
    reserved_cpus: int | None = field(whole(0), None)
    reserved_memory: int | None = field(_MEMORY, None)
    numa_nodes: int = field(whole(1), 1)
    shm: int | None = field(_MEMORY, None)
    node_selector: dict[str, str] = field(Form({}, "labels", _labels), lambda: {AMX_LABEL: "true"})
    tolerations: list[dict[str, Any]] = field(Form({}, "tolerations", _tolerations), list)
    pvc: str = field(_NAME, "")
    storage_class: str = field(_NAME, "")
    storage: int = field(_MEMORY, 100 * quantities.GI)
    access_mode: str = field(one_of(*ACCESS_MODES), "ReadWriteMany")

    @property
    def claim(self) -> str:
        """The name of the PersistentVolumeClaim that jobs share."""
        return self.pvc or "amx-cluster"


def read(value: object) -> Settings:
    """Return cluster_kubernetes as settings. Raises ValueError with a line for each error."""
    values, errors = _checked(value)
    if errors:
        raise ValueError("\n".join(errors))
    return Settings(**values)


def errors(value: object) -> list[str]:
    """Return what is wrong with cluster_kubernetes, each error with its field; an empty list for sound settings."""
    return _checked(value)[1]


def _checked(value: object) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(value, Mapping):
        return {}, [
            "cluster_kubernetes is not a mapping with image, workers, cpus and memory: set it in "
            "group_vars/cluster.yml (docs/kubernetes.md)"
        ]
    values, errors = check_fields(declared(Settings), value, Place(), ("image", "workers", "cpus", "memory"))
    if "pvc" in values and {"storage_class", "storage"} & set(values):
        errors.append("pvc: names a claim that exists, and storage_class and storage are for a new one: leave them out")
    if values.get("access_mode", ACCESS_MODES[0]) != ACCESS_MODES[0] and values.get("workers", 1) > 1:
        errors.append(
            f"access_mode: {values['access_mode']} is for one node, and the pods of {values['workers']} workers share "
            "the volume: use a storage class with ReadWriteMany, such as one of NFS"
        )
    return values, [f"cluster_kubernetes: {error}" for error in errors]


def claim_refusal(claim: Mapping[str, Any], pods: int) -> str:
    """Return why pods cannot share the volume of a claim, as the API has it; an empty string when they can."""
    modes = list(claim["spec"].get("accessModes", []))
    if pods > 1 and ACCESS_MODES[0] not in modes:
        return (
            f"pvc: {claim['metadata']['name']} has the access mode {', '.join(modes) or 'none'}, and {pods} pods on "
            "several nodes share it: name a claim with ReadWriteMany, or run the job with one pod (hosts: 1)"
        )
    return ""
