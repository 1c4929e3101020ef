"""Train on Kubernetes as an ordinary user: from an image to results, and what is refused. Called by verify.yml.

Prints what is a stand-in: nothing here is to be taken for a whole cluster. See tests/support/kubernetes_node.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import refusals
import training
import yaml
from pods import IS_CURRENT, KIND, NAMESPACE, admin, left, play, smoke, user, write
from support.cluster import EPHEMERAL, Play, words
from support.journeys import check, make
from support.kubernetes_node import kind, node
from support.kubernetes_node.api import path


def image_is_built() -> list[str]:
    """image.yml builds the image without a network, and finds it when it is asked again."""
    write("amx-cluster-pod:none")
    local = {"image_base": os.environ.get("NODE_BASE_IMAGE"), "image_pull": False, "image_network": "none"}
    options = [] if IS_CURRENT else ["-e", json.dumps(local)]
    found = re.search(r"The image is (\S+?)[:,] ", words(Play("image", *options).succeed()))
    check(found, "image.yml does not say which image it built")
    name = found[1] if found else ""
    again = words(Play("image", *options).succeed())
    check(f"The image is {name}" in again and "changed=0" in again, f"the second time: {again[-2000:]}")
    layers = node.output("docker", "history", "--no-trunc", name)
    check("/wheels" not in layers, f"the wheels are in a layer of the image: {layers}")
    if IS_CURRENT:
        node.output("kind", "load", "docker-image", name, "--name", kind.CLUSTER)
    write(name)
    return [
        f"image {name}, {int(node.output('docker', 'image', 'inspect', '--format', '{{.Size}}', name)) / 1e9:.2f} GB"
    ]


def manifest_is_accepted() -> list[str]:
    """The API server takes every object that manifest.yml renders, as this user, without storing it."""
    folder = EPHEMERAL / "manifests"
    play("manifest", "-e", f"job={smoke('rendered')}", "-e", f"to={folder}").succeed()
    files = sorted(Path(folder).rglob("*.yml"))
    check(len(files) >= 3, f"only {files}")
    for file in files:
        one = yaml.safe_load(file.read_text())
        user().call("POST", f"{path(one['apiVersion'], one['kind'], NAMESPACE)}?dryRun=All", one)
    return [f"{len(files)} objects were accepted: {', '.join(file.name for file in files)}"]


def nothing_is_left() -> list[str]:
    """stop.yml removes the objects of jobs that have ended; then no object of any job is on the cluster."""
    ended = (training.TOGETHER, training.KILLED, training.STOPPED, training.TWICE)
    for job in ended:
        play("stop", "-e", f"job={job}", "-e", "remove=true").succeed()
    objects = {job: left(job) for job in (*ended, "rendered", "unstarted", "waiting")}
    check(not any(objects.values()), f"left on the cluster: {objects}")
    pods = [one["metadata"]["name"] for one in admin().list("Pod", "v1", NAMESPACE)]
    check(not pods, f"pods: {pods}")
    return [f"nothing of {len(objects)} jobs is left on the cluster; their directories stay on the volume"]


# What a server of 1.20 refuses is refused before any object is created, whatever the server.
REFUSALS = () if IS_CURRENT else refusals.JOURNEYS
JOURNEYS = [image_is_built, manifest_is_accepted, *REFUSALS, *training.JOURNEYS, nothing_is_left]


def main() -> int:
    if IS_CURRENT:
        print(f"A cluster by kind, {KIND}. Stand-in: a directory of this machine for a network volume.")
        return make([[journey] for journey in JOURNEYS])
    try:
        node.check_machine()
    except node.ImpossibleError as error:
        print(f"skipped: jobs on nodes of Kubernetes: {error}")
        return 0
    print("Two nodes (kubelet 1.20.2), a CPU of this machine each. Stand-ins: DNS, Kubeflow's training operator.")
    return make([[journey] for journey in JOURNEYS])


if __name__ == "__main__":
    sys.exit(main())
