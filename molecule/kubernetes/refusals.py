"""What is refused before anything is created, and what is removed again when pods cannot start."""

from __future__ import annotations

import json

from pods import NAMESPACE, admin, play, refused, settings, smoke
from support.cluster import EPHEMERAL, words
from support.journeys import check
from support.kubernetes_node import node, objects

POOR, SINGLE = "training-poor", "single"


def a_cluster_that_is_not_there_is_refused() -> list[str]:
    """No kubeconfig, no such context, no server: each with its name, and what there is instead."""
    job = smoke("nowhere")
    nowhere = str(EPHEMERAL / "no.kubeconfig")
    refused("kubeconfig", [nowhere], job, kubeconfig=nowhere)
    refused("context", ["elsewhere", node.CONTEXT], job, context="elsewhere")
    config = json.loads(node.USER.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    deaf = EPHEMERAL / "deaf.kubeconfig"
    deaf.write_text(json.dumps(config))
    refused("server", ["https://127.0.0.1:1"], job, kubeconfig=str(deaf))
    return ["no kubeconfig, no context and no server were each refused"]


def kinds_that_the_cluster_does_not_have_are_refused() -> list[str]:
    """A TrainJob without its operator, and a Job on a server that is too old for it."""
    job = smoke("unknown")
    refused("TrainJob", ["the cluster has no TrainJob", "kubectl apply"], job, kind="TrainJob")
    refused("Job", ["kind: Job needs Kubernetes 1.24 or later, and the server has 1.20"], job, kind="Job")
    return ["a TrainJob without its CRD and a Job on Kubernetes 1.20 were refused"]


def missing_rights_are_named() -> list[str]:
    """A user who may only read pods is told every verb that is missing, in one message."""
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]
    group = "rbac.authorization.k8s.io"
    made = {"name": "poor", "namespace": POOR}
    client = admin()
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POOR}})
    client.apply({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": made, "rules": rules})
    subjects = [{"apiGroup": group, "kind": "User", "name": objects.USER}]
    role = {"apiGroup": group, "kind": "Role", "name": "poor"}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": made, "roleRef": role}
    client.apply({**binding, "subjects": subjects})
    try:
        said = ["create, delete, patch configmaps", "create pods/exec", "pytorchjobs.kubeflow.org", POOR, "rbac.yml"]
        output = refused("rights", said, smoke("poor"), namespace=POOR)
        check("get, list pods:" not in output, f"rights that are there are named: {output[-2000:]}")
    finally:
        client.delete("Namespace", "v1", "", POOR)
    return ["all missing verbs were named in one message"]


def what_no_node_can_give_is_refused_with_numbers() -> list[str]:
    """More CPUs than any node has, more pods than nodes, labels that no node has."""
    job = smoke("large")
    said = ["a pod requests 7 CPUs", "node-a has 1 CPUs", "node-b has 1 CPUs"]
    refused("CPUs", said, job, cpus=8, reserved_cpus=1)
    refused("labels", ["none of 2 nodes has the labels cpu=unheard-of"], job, node_selector={"cpu": "unheard-of"})
    refused("pods", ["workers: 3 pods of 1 CPUs", "nodes can take 2"], job, workers=3)
    return ["CPUs, labels and pods beyond those of the nodes were refused with numbers"]


def a_volume_that_pods_cannot_share_is_refused() -> list[str]:
    """A claim that is not there, and one that is ReadWriteOnce where two pods would share it."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": SINGLE, "namespace": NAMESPACE}}
    admin().apply({**claim, "spec": spec})
    job = smoke("volume")
    try:
        refused("ReadWriteOnce", [f"pvc: {SINGLE} has the access mode ReadWriteOnce, and 2 pods"], job, pvc=SINGLE)
    finally:
        admin().delete("PersistentVolumeClaim", "v1", NAMESPACE, SINGLE)
    refused("no claim", [f"pvc: namespace {NAMESPACE} has no claim nothing"], job, pvc="nothing")
    return ["a claim that is not there and one for a single node were refused"]


def host_only_fields_are_refused() -> list[str]:
    """A job that names hosts, before the cluster is asked."""
    refused("hosts", ["hosts"], smoke("named", hosts=["node0", "node1"]))
    return ["a job with names of hosts was refused"]


def what_cannot_start_is_removed_again() -> list[str]:
    """An image that no node has, and one without the stack: the cause is named, and nothing is left."""
    job = smoke("unstarted")
    said = [
        "does not have image amx-cluster-pod:none",
        "What this start had created was removed",
        "ConfigMap unstarted",
    ]
    refused("image", said, job, image="amx-cluster-pod:none")
    bare = str(settings()["image"]).rpartition(":")[0] + ":bare"
    node.output("docker", "tag", node.output("docker", "images", "--quiet", "amx-cluster-node:sandbox-*"), bare)
    try:
        refused(
            "no stack", ["its command cannot be run", "/env/bin/python", "had created was removed"], job, image=bare
        )
    finally:
        node.output("docker", "rmi", bare)
    return ["an image that is not there and one without the stack: named, and removed again"]


def a_pod_that_waits_for_a_node_says_for_what() -> list[str]:
    """Where nodes are not checked, the scheduler's reason is shown while the pods wait, and after the time-out."""
    options = ("-e", json.dumps({"kubernetes_check_nodes": False, "kubernetes_start_timeout": 15}))
    job = smoke("waiting")
    output = words(play("train", "-e", f"job={job}", *options, cpus=8, reserved_cpus=1).fail())
    check("Insufficient cpu" in output and "2" in output, f"{output[-3000:]}")
    check("waits for a node" in output, f"{output[-3000:]}")
    return ["a pod without a node: Insufficient cpu"]


JOURNEYS = (
    a_cluster_that_is_not_there_is_refused,
    kinds_that_the_cluster_does_not_have_are_refused,
    missing_rights_are_named,
    what_no_node_can_give_is_refused_with_numbers,
    a_volume_that_pods_cannot_share_is_refused,
    host_only_fields_are_refused,
    what_cannot_start_is_removed_again,
    a_pod_that_waits_for_a_node_says_for_what,
)
