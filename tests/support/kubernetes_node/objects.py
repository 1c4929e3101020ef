"""What tests find on the nodes: a namespace with a volume and the rights of an ordinary user, and a CRD."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.checkout import ROOT
from support.kubernetes_node.api import Client, Object, RefusedError
from support.kubernetes_node.processes import until

USER = "trainer"
CLAIM = "training"
RIGHTS = ROOT / "roles/manifest/files/rbac.yml"
CRD = Path(__file__).with_name("pytorchjob.yml")
# As node-feature-discovery names what /proc/cpuinfo calls otherwise.
FEATURES = {"amx_bf16": "AMXBF16", "avx512_bf16": "AVX512BF16", "avx512f": "AVX512F"}
LABEL = "amx.cluster/test"


def make(client: Client, namespace: str, volumes: Path, user: str = USER) -> None:
    """Make all that is the same for every test. user: as the API server knows the ordinary one."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for one in [*rights(namespace, user), *volume(namespace, volumes / namespace)]:
        client.apply(one)

    def has_account() -> bool:
        try:
            client.call("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        except RefusedError:
            return False
        return True

    # Pods are refused in a namespace until its account is there.
    if not until(has_account, 60):
        raise OSError(f"namespace {namespace} got no service account: kube-controller-manager does not work")


def rights(namespace: str, user: str) -> list[Object]:
    """Return what the file for users has, for a namespace and the tests' user."""
    found = []
    for one in yaml.safe_load(RIGHTS.read_text())["items"]:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = namespace
        for subject in one.get("subjects", []):
            subject["name"] = user
        found.append(one)
    return found


def volume(namespace: str, directory: Path) -> list[Object]:
    """Return a claim that several pods share, and its volume, a directory of this machine."""
    directory.mkdir(parents=True)
    directory.chmod(0o777)  # pods have a user of their own
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": namespace},
            "spec": {
                **common,
                "capacity": {"storage": "10Gi"},
                "hostPath": {"path": str(directory)},
                "claimRef": {"namespace": namespace, "name": CLAIM},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
            "spec": {**common, "volumeName": namespace, "resources": {"requests": {"storage": "10Gi"}}},
        },
    ]


def label(client: Client, node: str) -> None:
    """Label a node as node-feature-discovery would, and as one of the tests'."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    labels = {
        f"feature.node.kubernetes.io/cpu-cpuid.{name}": "true" for flag, name in FEATURES.items() if flag in flags
    }
    body = {"metadata": {"labels": {**labels, LABEL: "true"}}}
    client.call("PATCH", f"/api/v1/nodes/{node}", body, "application/merge-patch+json")
