# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a pod, by the object that the API server has of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    COMPLETION_INDEX,
    PREPARES,
    READS,
    REPLICA_INDEX,
    ROLE_LABEL,
)

Object = Mapping[str, Any]


def metadata_of(item: Object) -> dict[str, Any]:
    """Return the metadata of any object, with labels and annotations also where it has none."""
    metadata = dict(item.get("metadata") or {})
    return {**metadata, "labels": metadata.get("labels") or {}, "annotations": metadata.get("annotations") or {}}


def number_of(pod: Object) -> int:
    """Return a pod's number among those of its job, which the command pod in it has as well; -1 for one without."""
    metadata = metadata_of(pod)
    text = str(metadata["annotations"].get(COMPLETION_INDEX) or metadata["labels"].get(REPLICA_INDEX) or "")
    return int(text) if text.isdigit() else -1


def container_of(pod: Object) -> str:
    """Return the name of the container that trains in a pod, or prepares, or reads."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name", ""))


def has_read(pod: Object) -> bool:
    """Return whether a pod is a reader that has ended."""
    return role_of(pod) == READS and phase(pod) in ("Succeeded", "Failed")


def role_of(pod: Object) -> str:
    """Return what a pod does for its job: TRAINS, PREPARES or READS; empty for one that the collection did not make."""
    return str(metadata_of(pod)["labels"].get(ROLE_LABEL, ""))


def training_pods(pods: Iterable[Object]) -> dict[int, Object]:
    """Return the pods that train by their numbers; of several with the same one the newest."""
    oldest_first = sorted(pods, key=lambda item: metadata_of(item).get("creationTimestamp") or "")
    numbered = {number_of(pod): pod for pod in oldest_first if role_of(pod) not in (PREPARES, READS)}
    return {number: pod for number, pod in sorted(numbered.items()) if number >= 0}


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def containers(pod: Object, *, also_init: bool = False) -> list[dict[str, Any]]:
    """Return the statuses of a pod's containers, as the API has them."""
    status = pod.get("status") or {}
    return [
        *((status.get("initContainerStatuses") or []) if also_init else []),
        *(status.get("containerStatuses") or []),
    ]


def ends(pod: Object, *, also_init: bool = False) -> Iterator[dict[str, Any]]:
    """Return how containers of a pod ended, each now before how it did before its last restart."""
    for container in containers(pod, also_init=also_init):
        for place in ("state", "lastState"):
            if (container.get(place) or {}).get("terminated"):
                yield container[place]["terminated"]


def terminated(pod: Object) -> dict[str, Any]:
    """Return how the first container of a pod ended, now or before its last restart; empty for one that has not."""
    return next(ends(pod), {})


def outcome(pod: Object) -> dict[str, Any]:
    """Return what a pod wrote about its end (/dev/termination-log); empty where it wrote none."""
    for end in ends(pod, also_init=True):
        try:
            message = json.loads(end.get("message", ""))
        except ValueError:
            continue
        if isinstance(message, dict) and "state" in message:
            return message
    return {}


def began(pod: Object) -> str:
    """Return when the container of a pod began to run (RFC 3339); an empty string while it does not."""
    for container in containers(pod):
        running = (container.get("state") or {}).get("running")
        if running:
            return str(running.get("startedAt") or pod["status"].get("startTime") or "")
    return ""


def restarts(pod: Object) -> int:
    """Return how often the containers of a pod were started again."""
    return sum(int(container.get("restartCount", 0)) for container in containers(pod))


def is_running(pod: Object) -> bool:
    """Return whether a container of a pod runs, so that commands can be run in it."""
    if metadata_of(pod).get("deletionTimestamp"):
        return False
    return any("running" in (container.get("state") or {}) for container in containers(pod))


def why(pod: Object) -> str:
    """Return why a pod does not run, in the words of the API: of the scheduler, the kubelet or its own container."""
    status = pod.get("status") or {}
    message, states = outcome(pod), [container.get("state") or {} for container in containers(pod)]
    if message.get("reason"):
        return str(message["reason"])
    for state in states:
        waiting = state.get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in ("ContainerCreating", "PodInitializing"):
            return _sentence(waiting["reason"], waiting.get("message", ""))
    ended: dict[str, Any] = next((state["terminated"] for state in states if state.get("terminated")), {})
    if ended.get("exitCode"):
        reason = ended.get("reason", "")
        return reason if reason not in ("", "Error") else f"exit code {ended['exitCode']}"
    if status.get("reason") or status.get("message"):
        return _sentence(status.get("reason", ""), status.get("message", ""))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message


def pod_row(pod: Object) -> dict[str, Any]:
    """Return what a pod does, for people and programs."""
    return {
        "pod": metadata_of(pod).get("name", ""),
        "number": number_of(pod),
        "node": (pod.get("spec") or {}).get("nodeName") or "",
        "phase": "Terminating" if metadata_of(pod).get("deletionTimestamp") else phase(pod) or "Unknown",
        "restarts": restarts(pod),
        "reason": "" if is_running(pod) or phase(pod) == "Succeeded" else why(pod),
    }
