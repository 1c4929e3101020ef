"""What is refused before anything is created, and what is removed again when pods cannot start."""

from __future__ import annotations

import json

from pods import admin, play, refused, settings, smoke
from support.cluster import words
from support.journeys import check
from support.kubernetes_node import node, objects

POOR = "training-poor"


def kinds_that_the_cluster_does_not_have_are_refused() -> list[str]:
    """A TrainJob without its operator, and a Job on a server that is too old for it."""
    job = smoke("unknown")
    refused("TrainJob", ["the cluster has no TrainJob", "kubectl apply"], job, kind="TrainJob")
    refused("Job", ["kind: Job needs Kubernetes 1.24", "the server has 1.20"], job, kind="Job")
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
    kinds_that_the_cluster_does_not_have_are_refused,
    missing_rights_are_named,
    what_no_node_can_give_is_refused_with_numbers,
    what_cannot_start_is_removed_again,
    a_pod_that_waits_for_a_node_says_for_what,
)
