"""Why pods wait, and why jobs failed: from pods, events and conditions in the shape that API servers give them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import causes, kinds, pods, volume
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from support.api_server import api_server
from support.kubernetes_jobs import derive, render
from support.kubernetes_jobs import pods as specs

IMAGE = "registry.example.com/amx:1"
LIMITS = {"cpu": "198", "memory": "121172Mi"}


def pod(name: str = "demo-worker-0", *, role: str = "train", **status: Any) -> dict[str, Any]:
    """Return a pod of a PyTorchJob on a node, with this status."""
    labels = {"amx.cluster/job": "demo", "amx.cluster/role": role}
    uid = f"uid-of-{name}"
    if role == "train":
        labels["training.kubeflow.org/replica-index"] = name.rpartition("-")[2]
    container = {"name": "pytorch", "image": IMAGE, "resources": {"limits": LIMITS, "requests": LIMITS}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": uid, "labels": labels},
        "spec": {"nodeName": "node-a", "containers": [container]},
        "status": {"phase": "Pending", **status},
    }


def waits(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "containerStatuses": [
            {"name": "pytorch", "image": IMAGE, "state": {"waiting": {"reason": reason, "message": message}}, **more}
        ]
    }


def ends(code: int, reason: str = "Error", message: str = "", place: str = "state") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "message": message, "finishedAt": "2026-11-22T12:00:00Z"}
    return {"phase": "Failed", "containerStatuses": [{"name": "pytorch", "image": IMAGE, place: {"terminated": end}}]}


def maker(pods: int, kind: str = "PyTorchJob") -> dict[str, Any]:
    """Return a training object of so many pods, as manifest.yml renders it and the API server has it."""
    (made,) = [
        one
        for one in render(derive(kind=kind, workers=pods)).values()
        if one["kind"] == kind and "prepare" not in one["metadata"]["name"]
    ]
    return {**made, "metadata": {**made["metadata"], "name": "demo", "uid": "u-1"}}


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [condition]}


@pytest.mark.parametrize(
    ("message", "todo"),
    [
        ("0/4 nodes are available: 4 Insufficient cpu.", "wait for the end of other pods, or set cpus and memory"),
        ("0/4 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate.", "set tolerations"),
        ("0/4 nodes are available: 4 node(s) didn't match node selector.", "set node_selector"),
        ("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", "set node_selector"),
        ("pod has unbound immediate PersistentVolumeClaims.", "kubectl describe pvc; or set storage_class"),
        ('persistentvolumeclaim "none" not found', "name another claim in cluster_kubernetes"),
        ("something new", "see kubectl describe pod"),
    ],
)
def test_pods_without_a_node(message: str, todo: str) -> None:
    (cause,) = causes.of_waiting([pod(**unscheduled(message))], {})
    assert cause.text.startswith(f"pod demo-worker-0 waits for a node: {message.rstrip('.')}: ")
    assert todo in cause.text
    assert not cause.hopeless
    assert not cause.lasting, "other pods may end"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            waits("ErrImageNeverPull", f'Container image "{IMAGE}" is not present with pull policy of Never'),
            f"pod demo-worker-0: node node-a does not have image {IMAGE}, and image_pull_policy is Never: load it",
        ),
        (
            waits("InvalidImageName", 'Failed to apply default image tag "a:b:c"'),
            f"pod demo-worker-0: {IMAGE} is no name of an image: correct image in cluster_kubernetes",
        ),
        (
            waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'),
            f"pod demo-worker-0: node node-a cannot pull image {IMAGE} (ImagePullBackOff): "
            "manifest unknown: correct image in cluster_kubernetes, push it",
        ),
        (
            waits("CreateContainerConfigError", 'secret "demo-env" not found'),
            "pod demo-worker-0 on node node-a cannot be started (CreateContainerConfigError): "
            'secret "demo-env" not found',
        ),
        (
            waits("CrashLoopBackOff", lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            "pod demo-worker-0 on node node-a has ended and is started again: it ran out of memory (OOMKilled)",
        ),
    ],
)
def test_pods_on_a_node(status: dict[str, Any], text: str) -> None:
    told = f'Failed to pull image "{IMAGE}": rpc error: code = Unknown desc = manifest unknown'
    of_pod = [{"reason": "Failed", "message": told}, {"reason": "Failed", "message": "Error: x"}]
    events = {"uid-of-demo-worker-0": of_pod}
    (cause,) = causes.of_waiting([pod(**status)], events)
    assert cause.text.startswith(text)


@pytest.mark.parametrize(
    ("reason", "hopeless", "lasting"),
    [
        ("ErrImageNeverPull", True, False),
        ("InvalidImageName", True, False),
        ("ErrImagePull", False, True),
        ("ImagePullBackOff", False, True),
        ("ImageInspectError", False, True),
        ("RegistryUnavailable", False, True),
        # A Secret that is not there yet, a kubelet or a container runtime under load.
        ("CreateContainerConfigError", False, True),
        ("CreateContainerError", False, True),
        ("RunContainerError", False, True),
        ("CrashLoopBackOff", False, False),
        ("PodInitializing", False, False),
    ],
)
def test_a_reason_is_as_bad_for_a_reader_as_for_a_job(
    tmp_path: Path, reason: str, hopeless: bool, lasting: bool
) -> None:
    (cause,) = causes.of_waiting([pod(**waits(reason, "told"))], {})
    assert (cause.hopeless, cause.lasting) == (hopeless, lasting)
    waiting, runs = pod(**waits(reason, "told")), pod(containerStatuses=[{"state": {"running": {}}}])
    answers = iter([waiting, waiting, runs])
    team = "/api/v1/namespaces/team"
    answers_of = {f"{team}/pods/demo-worker-0": lambda _request: next(answers), f"{team}/events": {"items": []}}
    with api_server(answers_of) as server:
        api = Api.connect(server.kubeconfig(tmp_path), namespace="team")
        try:
            volume.wait_for(api, waiting, lambda _text: None, 60, every=0)
        except ValueError as error:
            assert hopeless, error
            assert str(error) == f"pod demo-worker-0 cannot start: {cause.text}"
        else:
            assert not hopeless


def test_pods_that_are_being_created() -> None:
    creating, of_pod = pod(**waits("ContainerCreating")), "uid-of-demo-worker-0"
    (cause,) = causes.of_waiting([creating], {})
    assert cause.text == "pod demo-worker-0 is being started on node node-a"
    (cause,) = causes.of_waiting([creating], {of_pod: [{"reason": "Pulling", "message": "Pulling image"}]})
    assert cause.text == "pod demo-worker-0: node node-a is pulling its image"
    mount = {"reason": "FailedMount", "message": "mount failed: exit status 32"}
    (cause,) = causes.of_waiting([creating], {of_pod: [mount]})
    assert cause.text == "pod demo-worker-0 on node node-a is not started yet: mount failed: exit status 32"
    assert causes.of_waiting([pod(phase="Running")], {}) == []


@pytest.mark.slow
def test_pods_that_nothing_may_create() -> None:
    message = 'pods "demo-worker-0" is forbidden: exceeded quota: team, requested: cpu=198, used: cpu=0, limited: cpu=4'
    events = {"u-1": [{"reason": "FailedCreate", "message": message}]}
    (cause,) = causes.of_waiting([], events, maker(2))
    assert (cause.hopeless, cause.lasting) == (False, True), (
        "a webhook or a quota that is counted anew refuses for once"
    )
    assert cause.text.startswith(f"no pod can be created: {message}: free some of it")
    assert causes.of_waiting([], {}, maker(2)) == []
    assert causes.of_waiting([], events) == []


@pytest.mark.parametrize("kind", ["PyTorchJob", "Job", "TrainJob"])
def test_some_pods_that_nothing_may_create(kind: str) -> None:
    """The first pod runs and waits for the others, of which nothing else tells."""
    events = {"u-1": [{"reason": "FailedCreatePod", "message": "denied by a webhook"}]}
    first, other = pod(phase="Running"), pod("demo-worker-1", phase="Running")
    (cause,) = causes.of_waiting([first], events, maker(2, kind), 1)
    assert cause.text == "1 of 2 pods cannot be created: denied by a webhook: see kubectl describe, object demo"
    assert not cause.lasting, "other pods may end"
    assert causes.of_waiting([first, other], events, maker(2, kind), 2) == []


def test_pods_of_a_deleted_run_tell_nothing_about_this_one() -> None:
    going = pod(**waits("InvalidImageName"))
    going["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    assert causes.of_waiting([going], {}, maker(1)) == []


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            ends(137, "OOMKilled"),
            "pod demo-worker-1 on node node-a ran out of memory (OOMKilled, its limit is 121172Mi): set "
            "per_device_train_batch_size or ranks_per_node lower",
        ),
        (
            {**ends(1, "OOMKilled", place="lastState"), "phase": "Running"},
            "pod demo-worker-1 on node node-a ran out of memory (OOMKilled",
        ),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: ephemeral-storage. ",
            },
            "pod demo-worker-1 on node node-a was evicted: The node was low on resource: ephemeral-storage: free what",
        ),
        (
            {"phase": "Running", "reason": "NodeLost"},
            "pod demo-worker-1 on node node-a ended because its node was lost",
        ),
        (
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}],
            },
            "pod demo-worker-1 on node node-a is not heard of: its node does not answer",
        ),
        (
            {"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer"},
            "pod demo-worker-1 on node node-a has run longer than its activeDeadlineSeconds (DeadlineExceeded)",
        ),
        (
            {
                "phase": "Failed",
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                        "message": "preempted by a pod with a higher priority",
                    }
                ],
            },
            "pod demo-worker-1 on node node-a was disrupted (PreemptionByScheduler): preempted by a pod with",
        ),
    ],
)
def test_what_ends_a_pod_comes_before_what_others_say(status: dict[str, Any], text: str) -> None:
    told = json.dumps({"version": 1, "state": "failed", "reason": "rank 1 was lost", "pod": "a", "node": "b"})
    first = pod(**ends(1, message=told))
    cause = causes.of_failure([first, pod("demo-worker-1", **status)])
    assert cause.text.startswith(text)
    assert cause.pod == "demo-worker-1"


def test_what_pods_wrote_comes_before_exit_codes() -> None:
    told = json.dumps({"version": 1, "state": "failed", "reason": "rank 1 on demo-worker-1 failed: ValueError: no"})
    pods = [pod("demo-worker-1", **ends(1, message="Traceback\nlast words")), pod(**ends(1, message=told))]
    cause = causes.of_failure(pods)
    assert cause.text == "pod demo-worker-0 on node node-a: rank 1 on demo-worker-1 failed: ValueError: no"
    cause = causes.of_failure(pods[:1])
    assert cause.text == "pod demo-worker-1 on node node-a: it ended with exit code 1: last words"


def test_what_the_training_object_says() -> None:
    def failed(reason: str, message: str) -> dict[str, Any]:
        condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        return {"kind": "Job", "metadata": {"name": "demo"}, "status": {"conditions": [condition]}}

    late = failed("DeadlineExceeded", "Job was active longer than specified deadline")
    assert "activeDeadlineSeconds (DeadlineExceeded)" in causes.of_failure([], late).text
    assert causes.of_failure([], failed("BackoffLimitExceeded", "no more")).text == "BackoffLimitExceeded: no more"
    assert causes.of_failure([]).text == "no pod tells why it failed"


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ({"type": "Complete", "status": "True"}, "succeeded"),
        ({"type": "Succeeded", "status": "True"}, "succeeded"),
        ({"type": "Failed", "status": "True"}, "failed"),
        ({"type": "Running", "status": "True"}, ""),
        ({"type": "Succeeded", "status": "False"}, ""),
    ],
)
def test_whether_an_object_has_ended(condition: dict[str, str], state: str) -> None:
    assert kinds.conclusion({"kind": "PyTorchJob", "status": {"conditions": [condition]}})[0] == state
    assert kinds.conclusion({"kind": "PyTorchJob"})[0] == ""


COMPLETION, REPLICA = "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index"


@pytest.mark.parametrize(
    ("kind", "about", "number"),
    [
        ("PyTorchJob", {"labels": {REPLICA: "2", "training.kubeflow.org/replica-type": "worker"}}, 2),
        ("Job", {"annotations": {COMPLETION: "3"}}, 3),
        ("Job", {"annotations": {COMPLETION: "3"}, "labels": {COMPLETION: "3", "job-name": "demo"}}, 3),
        # JobSet numbers Jobs besides, of which a TrainJob has one: all of its pods are of Job 0.
        (
            "TrainJob",
            {
                "annotations": {COMPLETION: "1", "jobset.sigs.k8s.io/job-index": "0"},
                "labels": {COMPLETION: "1", "jobset.sigs.k8s.io/job-index": "0"},
            },
            1,
        ),
        ("TrainJob", {"labels": {"jobset.sigs.k8s.io/job-index": "0"}}, -1),
        ("reader", {}, -1),
    ],
)
def test_a_pod_has_one_number_for_everybody(kind: str, about: dict[str, Any], number: int) -> None:
    """What its own command pod is set to by the field that its object names, what causes and what status show."""
    one = pod()
    one["metadata"].update({"labels": {}, "annotations": {}, **about})
    one["metadata"]["labels"].update({"amx.cluster/job": "demo", "amx.cluster/role": "train"})
    assert pods.number_of(one) == number
    assert list(pods.training_pods([one])) == ([number] if number >= 0 else [])
    if kind == "reader":
        return
    derived = derive(kind=kind)
    fields = [
        each["valueFrom"]["fieldRef"]["fieldPath"]
        for spec in specs(render(derived))
        for each in spec["containers"][0]["env"]
        if each["name"] == "AMX_CLUSTER_INDEX"
    ]
    assert fields, f"{kind} does not number its pods"
    for path in fields:
        place, key = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path).groups()  # type: ignore[union-attr]
        assert one["metadata"][place].get(key, "-1") == str(number)
