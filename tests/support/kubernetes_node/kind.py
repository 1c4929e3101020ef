"""A current Kubernetes by kind, for the kinds of object that 1.20 does not know: kubernetes_kind.sh KIND.

Makes a cluster of two workers, each with room for one pod, and what objects.py makes on the nodes of 1.20; installs the
operator of KIND (Job, PyTorchJob or TrainJob) by the command that refusals name. Needs kind, kubectl, docker and the
network: it runs in the public workflow, and `kind delete cluster --name amx-test` ends it.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from typing import Any

import yaml
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds
from support.kubernetes_node import node, objects
from support.kubernetes_node.api import Client

CLUSTER = "amx-test"
WORKERS = (f"{CLUSTER}-worker", f"{CLUSTER}-worker2")
# On this machine and, at the same path, in every node.
VOLUMES = node.CACHE / "volumes"
CPUS = 2  # for pods of a node: one that trains, and what every node has besides


def configuration() -> dict[str, Any]:
    """Return what kind makes: nodes that share a directory, and keep all but so many CPUs for themselves."""
    mount = {"hostPath": str(VOLUMES), "containerPath": str(VOLUMES)}
    kubelet = {"kind": "KubeletConfiguration", "kubeReserved": {"cpu": str((os.cpu_count() or CPUS) - CPUS)}}
    worker = {"role": "worker", "extraMounts": [mount]}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kubeadmConfigPatches": [json.dumps(kubelet)],
        "nodes": [{"role": "control-plane"}, *([worker] * len(WORKERS))],
    }


def kubectl(*words: str) -> str:
    return node.output("kubectl", "--context", f"kind-{CLUSTER}", *words)


def install(kind: str) -> None:
    """Install the operator of a kind as the collection tells users to, and wait until it runs."""
    command = kinds.TRAINING[kind].operator.partition(": ")[2]
    if command:
        kubectl(*shlex.split(command)[1:])
    kubectl("wait", "--for=condition=Available", "deployment", "--all", "--all-namespaces", "--timeout=600s")


def write_kubeconfigs() -> str:
    """Write the kubeconfigs of an administrator and of an ordinary user; return that one's name."""
    config = json.loads(kubectl("config", "view", "--minify", "--raw", "--output=json"))["clusters"][0]["cluster"]
    authority = node.CACHE / "kind.crt"
    authority.write_bytes(base64.b64decode(config["certificate-authority-data"]))
    for name, path in (("tests-admin", node.ADMIN), (objects.USER, node.USER)):
        kubectl("create", "serviceaccount", name)
        token = kubectl("create", "token", name, "--duration=24h")
        node.kubeconfig(path, config["server"], authority, name, token, node.NAMESPACE)
    kubectl(
        "create",
        "clusterrolebinding",
        "tests-admin",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:tests-admin",
    )
    return f"system:serviceaccount:default:{objects.USER}"


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0] not in kinds.TRAINING:
        print(f"usage: kubernetes_kind.sh {' | '.join(kinds.TRAINING)}", file=sys.stderr)
        return 2
    VOLUMES.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["kind", "create", "cluster", f"--name={CLUSTER}", "--config=-", "--wait=300s"],
        input=yaml.safe_dump(configuration()),
        text=True,
        check=True,
    )
    install(words[0])
    user = write_kubeconfigs()
    client = Client(node.ADMIN)
    objects.make(client, node.NAMESPACE, VOLUMES, user)
    for name in WORKERS:
        objects.label(client, name)
    print(f"{kubectl('version')}\nNodes for pods: {', '.join(WORKERS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
