# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's cluster_kubernetes: the cluster, the nodes and the volume that jobs use, checked completely."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True)
class Settings:
    """cluster_kubernetes, valid. docs/kubernetes.md has each field.

    cpus, memory: of each node, CPUs as Linux counts them and bytes; reserved_cpus, reserved_memory: what of it pods
    leave, None for what kubelets usually keep. shm: bytes of /dev/shm, None for what follows from the job. numa_nodes:
    of how many a pod's CPUs are, for jobs with ranks_per_node: auto. context, kubeconfig: empty for the user's own.
    """

    image: str
    workers: int
    cpus: int
    memory: int
    kind: str = "Job"
    context: str = ""
    kubeconfig: str = ""
    namespace: str = "default"
    create_namespace: bool = False
    image_pull_policy: str = "IfNotPresent"
    image_pull_secret: str = ""
    reserved_cpus: int | None = None
    reserved_memory: int | None = None
    numa_nodes: int = 1
    shm: int | None = None
    node_selector: dict[str, str] = field(default_factory=lambda: {AMX_LABEL: "true"})
    tolerations: list[dict[str, Any]] = field(default_factory=list)
    pvc: str = ""
    storage_class: str = ""
    storage: int = 100 * quantities.GI
    access_mode: str = "ReadWriteMany"


def _count(least: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{value!r} is not a whole number of at least {least}")
        return value

    return check


def _bytes(value: object) -> int:
    try:
        size = quantities.number(value)
    except ValueError:
        size = quantities.number("0")
    if size < quantities.MI:
        raise ValueError(f"{value!r} is not a quantity of memory of at least 1Mi, such as 128Gi")
    return int(size)


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is not {what}")
        return value

    return check


def _one_of(*known: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(known)}")
        return str(value)

    return check


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a mapping of labels, such as {{{AMX_LABEL}: 'true'}}")
    for key, item in value.items():
        if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a label's name")
        if not isinstance(item, str) or not LABEL_VALUE.fullmatch(item):
            raise ValueError(f"{key}: {item!r} is not a label's value: write it as text, such as 'true'")
    return dict(value)


def _tolerations(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise ValueError(f"{value!r} is not a list of tolerations, such as [{{key: training, operator: Exists}}]")
    known = {"key", "operator", "value", "effect", "tolerationSeconds"}
    for one in value:
        unknown = sorted(set(map(str, one)) - known)
        if unknown:
            raise ValueError(f"{unknown[0]}: unknown field of a toleration; known fields: {', '.join(sorted(known))}")
    return [dict(one) for one in value]


_NAME = _matching(DNS_NAME, "a name of Kubernetes: lower-case letters, digits, '-' and '.'")
CHECKS: dict[str, Callable[[object], Any]] = {
    "image": _matching(re.compile(r"[a-z0-9][\w./:@-]*"), "an image, such as registry.example.com/amx-cluster:native"),
    "workers": _count(1),
    "cpus": _count(2),
    "memory": _bytes,
    "kind": _one_of(*sorted(kinds.TRAINING)),
    "context": _matching(re.compile(r"\S+"), "the name of a context in your kubeconfig"),
    "kubeconfig": _matching(re.compile(r"\S(.*\S)?"), "the path of a kubeconfig on the control node"),
    "namespace": _matching(DNS_LABEL, "a namespace: at most 63 lower-case letters, digits and '-'"),
    "create_namespace": _switch,
    "image_pull_policy": _one_of(*PULL_POLICIES),
    "image_pull_secret": _NAME,
    "reserved_cpus": _count(0),
    "reserved_memory": _bytes,
    "numa_nodes": _count(1),
    "shm": _bytes,
    "node_selector": _labels,
    "tolerations": _tolerations,
    "pvc": _NAME,
    "storage_class": _NAME,
    "storage": _bytes,
    "access_mode": _one_of(*ACCESS_MODES),
}
REQUIRED = ("image", "workers", "cpus", "memory")


def read(value: object) -> Settings:
    """Return cluster_kubernetes as settings. Raises ValueError with a line for each error."""
    found = errors(value)
    if found or not isinstance(value, Mapping):
        raise ValueError("\n".join(found))
    return Settings(**{key: CHECKS[key](item) for key, item in value.items()})


def errors(value: object) -> list[str]:
    """Return what is wrong with cluster_kubernetes, each error with its field; an empty list for sound settings."""
    if not isinstance(value, Mapping):
        return [
            "cluster_kubernetes is not a mapping with image, workers, cpus and memory: set it in "
            "group_vars/cluster.yml (docs/kubernetes.md)"
        ]
    found, values = [], dict[str, Any]()
    for key, item in value.items():
        if key not in CHECKS:
            near = difflib.get_close_matches(str(key), CHECKS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(CHECKS)}"
            found.append(f"cluster_kubernetes: {key}: unknown field; {hint}")
            continue
        try:
            values[key] = CHECKS[key](item)
        except ValueError as error:
            found.append(f"cluster_kubernetes: {key}: {error}")
    found += [f"cluster_kubernetes: {key}: is missing" for key in REQUIRED if key not in value]
    if "pvc" in values and {"storage_class", "storage"} & set(values):
        found.append(
            "cluster_kubernetes: pvc: names a claim that exists, and storage_class and storage are for a new one: "
            "leave them out"
        )
    if values.get("access_mode", ACCESS_MODES[0]) != ACCESS_MODES[0] and values.get("workers", 1) > 1:
        found.append(
            f"cluster_kubernetes: access_mode: {values['access_mode']} is for one node, and the pods of "
            f"{values['workers']} workers share the volume: use a storage class with ReadWriteMany, such as one of NFS"
        )
    return found


def claim_refusal(claim: Mapping[str, Any], pods: int) -> str:
    """Return why pods cannot share the volume of a claim, as the API has it; an empty string when they can."""
    modes = list(claim["spec"].get("accessModes", []))
    if pods > 1 and ACCESS_MODES[0] not in modes:
        return (
            f"pvc: {claim['metadata']['name']} has the access mode {', '.join(modes) or 'none'}, and {pods} pods on "
            "several nodes share it: name a claim with ReadWriteMany, or run the job with one pod (hosts: 1)"
        )
    return ""
