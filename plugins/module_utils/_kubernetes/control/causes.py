# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes of pods that do not run and of failed jobs, with what to do. From objects as the API has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds, pods

# What the scheduler says about nodes, and what to do about it; the first that it says counts.
SCHEDULING = (
    ("persistentvolumeclaim", "see why: kubectl describe pvc; or name another claim in cluster_kubernetes (pvc)"),
    ("PersistentVolumeClaims", "see why: kubectl describe pvc; or set storage_class in cluster_kubernetes"),
    ("volume node affinity", "the volume is of other nodes: set node_selector to them, or use a ReadWriteMany volume"),
    ("Insufficient", "wait for the end of other pods, or set cpus and memory in cluster_kubernetes lower"),
    ("node selector", "set node_selector in cluster_kubernetes to a label that nodes have"),
    ("node affinity/selector", "set node_selector in cluster_kubernetes to a label that nodes have"),
    ("taint", "set tolerations in cluster_kubernetes"),
    ("Too many pods", "wait for the end of other pods"),
)
# Why a container waits: an image that cannot be pulled, and what may pass, as a Secret that is created later, or a
# container runtime that is too busy to answer.
PULLING = ("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
CREATING = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
RESUMED = "(-e job_resume=true continues from its last checkpoint)"
LOST = ("NodeLost", "NodeShutdown", "Shutdown", "Terminated")


@dataclass(frozen=True)
class Cause:
    """pod: empty where it is about the job. text: what, with what to do. hopeless: whether waiting does not mend it."""

    pod: str
    text: str
    hopeless: bool = False
    lasting: bool = False
    """Whether it may pass, and is final when it lasts for a minute."""


def of_waiting(
    of_job: Sequence[Mapping[str, Any]],
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    maker: Mapping[str, Any] | None = None,
    made: int = 0,
) -> list[Cause]:
    """Return why pods of a job do not run yet, for each that does not. events: by the object's uid, the oldest first.

    maker: the object that makes the pods, of which it has made so many; where some are missing, its events tell why.
    A pod that is being deleted is of a previous run, or is replaced.
    """
    causes = [
        cause
        for pod in of_job
        if not pod["metadata"].get("deletionTimestamp")
        for cause in _of_pending(pod, events.get(pod["metadata"].get("uid", ""), ()))
    ]
    return causes if maker is None else [*causes, *_of_missing(maker, made, events)]


def _of_missing(
    maker: Mapping[str, Any], made: int, events: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[Cause]:
    """Return why an object has not made all of its pods. Its controller tries again: a refusal counts when it lasts."""
    about, wanted = maker["metadata"], kinds.wanted(maker)
    refused = [
        event
        for event in events.get(about.get("uid", ""), ())
        if event.get("reason") in ("FailedCreate", "FailedCreatePod")
    ]
    if made >= wanted or not refused:
        return
    message = refused[-1].get("message", "")
    if "exceeded quota" in message:
        todo = "free some of it (kubectl describe quota), or set workers, cpus and memory lower"
    else:
        todo = f"see kubectl describe, object {about['name']}"
    which = f"{wanted - made} of {wanted} pods cannot" if made else "no pod can"
    yield Cause("", f"{which} be created: {message}: {todo}", lasting=not made)


def _of_pending(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    name, status = str(pod["metadata"]["name"]), pod.get("status", {})
    if status.get("phase") not in (None, "Pending", "Unknown", "Running"):
        return
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield Cause(name, f"pod {name} waits for a node: {_advised(str(condition.get('message', '')))}")
            return
    waiting = [
        (container, container["state"]["waiting"])
        for container in pods.containers(pod, also_init=True)
        if container.get("state", {}).get("waiting")
    ]
    node = pod.get("spec", {}).get("nodeName", "")
    for container, state in waiting:
        reason, message = str(state.get("reason", "")), str(state.get("message", "")).strip()
        image = str(container.get("image") or _image(pod, container.get("name")))
        if reason == "ErrImageNeverPull":
            yield Cause(
                name,
                f"pod {name}: node {node} does not have image {image}, and image_pull_policy is Never: load it there "
                "(playbooks/image.yml -e save=FILE.tar), or set image_pull_policy: IfNotPresent",
                hopeless=True,
            )
        elif reason == "InvalidImageName":
            yield Cause(name, f"pod {name}: {image} is no name of an image: correct image in cluster_kubernetes", True)
        elif reason in PULLING:
            yield Cause(
                name,
                f"pod {name}: node {node} cannot pull image {image} ({reason}): {_pull_error(message, events)}: "
                "correct image in cluster_kubernetes, push it (playbooks/image.yml -e push=true), or set "
                "image_pull_secret",
                lasting=True,
            )
        elif reason in CREATING:
            yield Cause(
                name,
                f"pod {name} on node {node} cannot be started ({reason}): {message}: correct it, and run again",
                lasting=True,
            )
        elif reason == "CrashLoopBackOff":
            last = (container.get("lastState") or {}).get("terminated") or {}
            yield Cause(name, f"pod {name} on node {node} has ended and is started again: {_ended(last)}")
        else:
            yield _of_creation(name, node, events)
        return
    if not pods.containers(pod, also_init=True) and status.get("phase") in (None, "Pending") and node:
        yield _of_creation(name, node, events)


def _of_creation(name: str, node: str, events: Sequence[Mapping[str, Any]]) -> Cause:
    """Return what a pod that has a node waits for: its image, or what its last event names."""
    failed = [event for event in events if str(event.get("reason", "")).startswith("Failed")]
    if failed:
        return Cause(name, f"pod {name} on node {node} is not started yet: {failed[-1].get('message', '')}")
    pulls = [event for event in events if event.get("reason") == "Pulling"]
    pulled = [event for event in events if event.get("reason") == "Pulled"]
    if len(pulls) > len(pulled):
        return Cause(name, f"pod {name}: node {node} is pulling its image")
    return Cause(name, f"pod {name} is being started on node {node}")


def _pull_error(message: str, events: Sequence[Mapping[str, Any]]) -> str:
    """Return why an image cannot be pulled: what an event says, where the state says only that it waits."""
    failed = [str(event.get("message", "")) for event in events if event.get("reason") == "Failed"]
    pulls = [text for text in failed if "ailed to pull" in text]
    text = (pulls[-1] if pulls else message) or "no reason was given"
    return text.rpartition("desc = ")[2].strip().rstrip(".") or text


def _advised(message: str) -> str:
    """Return what the scheduler says, with what to do."""
    todo = next((advice for words, advice in SCHEDULING if words in message), "see kubectl describe pod")
    return f"{message.rstrip('. ') or 'the scheduler has not seen it yet'}: {todo}"


def _image(pod: Mapping[str, Any], container: object) -> str:
    images = [entry["image"] for entry in pod.get("spec", {}).get("containers", []) if entry.get("name") == container]
    return str(images[0]) if images else ""


def of_failure(of_job: Sequence[Mapping[str, Any]], trains: Mapping[str, Any] | None = None) -> Cause:
    """Return why a job failed. of_job: all of its pods, also those that prepare. trains: its training object.

    What ended a pod from outside comes first, then what pods wrote about their end, the first pod before the others,
    then exit codes, then what the training object says.
    """
    for judge in (_forced, _reported, _exited):
        for pod in sorted(of_job, key=_order):
            cause = judge(pod)
            if cause:
                return cause
    _state, reason, message = kinds.conclusion(trains or {})
    if reason == "DeadlineExceeded":
        return Cause("", "the job has run longer than its activeDeadlineSeconds (DeadlineExceeded): set it higher")
    return Cause("", f"{reason or 'failed'}: {message}" if message else "no pod tells why it failed")


def _order(pod: Mapping[str, Any]) -> tuple[bool, int, str]:
    place = pods.number_of(pod)
    return place < 0, place, str(pod["metadata"]["name"])


def _where(pod: Mapping[str, Any]) -> str:
    node = pod.get("spec", {}).get("nodeName", "")
    return f"pod {pod['metadata']['name']}{f' on node {node}' if node else ''}"


def _forced(pod: Mapping[str, Any]) -> Cause | None:
    """Return what ended a pod from outside: memory, eviction, preemption, a deadline or a lost node."""
    name, status = str(pod["metadata"]["name"]), pod.get("status", {})
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip().rstrip(".")
    if any(end.get("reason") == "OOMKilled" for end in pods.ends(pod, also_init=True)):
        limits = [
            container.get("resources", {}).get("limits", {}) for container in pod.get("spec", {}).get("containers", [])
        ]
        limit = next((entry["memory"] for entry in limits if "memory" in entry), "unknown")
        return Cause(
            name,
            f"{_where(pod)} ran out of memory (OOMKilled, its limit is {limit}): set per_device_train_batch_size or "
            "ranks_per_node lower, or use nodes with more memory (memory in cluster_kubernetes)",
        )
    if reason == "Evicted":
        return Cause(
            name,
            f"{_where(pod)} was evicted: {message or 'no reason was given'}: free what the node is short of, and start "
            f"the job again {RESUMED}",
        )
    if reason in LOST:
        return Cause(name, f"{_where(pod)} ended because its node was lost or shut down: start the job again {RESUMED}")
    if reason == "DeadlineExceeded":
        return Cause(name, f"{_where(pod)} has run longer than its activeDeadlineSeconds (DeadlineExceeded)")
    if reason in ("UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity"):
        return Cause(name, f"{_where(pod)} was refused by its node ({reason}): {message}: start the job again")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            why = str(condition.get("reason", ""))
            return Cause(
                name, f"{_where(pod)} was disrupted ({why}): {condition.get('message', '')}: start it again {RESUMED}"
            )
        if condition.get("type") == "Ready" and condition.get("reason") == "NodeStatusUnknown":
            return Cause(
                name, f"{_where(pod)} is not heard of: its node does not answer: start the job again {RESUMED}"
            )
    return None


def _reported(pod: Mapping[str, Any]) -> Cause | None:
    outcome = pods.outcome(pod)
    if outcome.get("state") in ("failed", "lost") and outcome.get("reason"):
        return Cause(str(pod["metadata"]["name"]), f"{_where(pod)}: {outcome['reason']}")
    return None


def _exited(pod: Mapping[str, Any]) -> Cause | None:
    for end in pods.ends(pod, also_init=True):
        if end.get("exitCode"):
            return Cause(str(pod["metadata"]["name"]), f"{_where(pod)}: {_ended(end)}")
    return None


def _ended(end: Mapping[str, Any]) -> str:
    """Return how a container ended."""
    message = str(end.get("message") or "").strip().splitlines()
    if end.get("reason") == "OOMKilled":
        return "it ran out of memory (OOMKilled)"
    if end.get("reason") == "ContainerCannotRun" and message:
        return f"its command cannot be run: {message[-1]}"
    code = end.get("exitCode", "unknown")
    return f"it ended with exit code {code}" + (
        f": {message[-1]}" if message and not message[-1].startswith("{") else ""
    )
