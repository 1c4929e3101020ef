# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod does, by the object that the API server has of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import (
    COMPLETION_INDEX,
    READS,
    REPLICA_INDEX,
    ROLE_LABEL,
)

Object = Mapping[str, Any]

# Why a container waits: what no waiting mends; an image that cannot be pulled; and what may pass, as a Secret that is
# created later, or a container runtime that is too busy to answer.
HOPELESS = ("ErrImageNeverPull", "InvalidImageName")
PULLING = ("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
CREATING = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def metadata_of(one: Object) -> dict[str, Any]:
    """Return the metadata of any object, with labels and annotations also where it has none."""
    found = dict(one.get("metadata") or {})
    return {**found, "labels": found.get("labels") or {}, "annotations": found.get("annotations") or {}}


def number_of(pod: Object) -> int:
    """Return the number of a pod among those of its job, which pod.py in it has as well; -1 for one without."""
    found = metadata_of(pod)
    text = str(found["annotations"].get(COMPLETION_INDEX) or found["labels"].get(REPLICA_INDEX) or "")
    return int(text) if text.isdigit() else -1


def container_of(pod: Object) -> str:
    """Return the name of the container that trains in a pod, or prepares, or reads."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name", ""))


def has_read(pod: Object) -> bool:
    """Tell whether a pod is a reader that has ended."""
    phase = (pod.get("status") or {}).get("phase")
    return metadata_of(pod)["labels"].get(ROLE_LABEL) == READS and phase in ("Succeeded", "Failed")


def container_states(pod: Object) -> list[dict[str, Any]]:
    """Return the states of a pod's containers, as the API has them: each running, waiting or terminated."""
    return [one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or []]


def terminated(pod: Object) -> dict[str, Any]:
    """Return how the first container of a pod ended, now or before its last restart; empty for one that has not."""
    for one in (pod.get("status") or {}).get("containerStatuses") or []:
        for state in (one.get("state") or {}, one.get("lastState") or {}):
            if state.get("terminated"):
                return dict(state["terminated"])
    return {}


def message_of(pod: Object) -> dict[str, Any]:
    """Return the outcome that a pod has left as its termination message; empty where it has not."""
    try:
        found = json.loads(terminated(pod).get("message", ""))
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "state" in found else {}


def restarts(pod: Object) -> int:
    """Return how often the containers of a pod were started again."""
    return sum(int(one.get("restartCount", 0)) for one in (pod.get("status") or {}).get("containerStatuses") or [])


def is_running(pod: Object) -> bool:
    """Tell whether a container of a pod runs, so that commands can be run in it."""
    if metadata_of(pod).get("deletionTimestamp"):
        return False
    return any("running" in state for state in container_states(pod))


def why(pod: Object) -> str:
    """Return why a pod does not run, in the words of the API: of the scheduler, the kubelet or its own container."""
    status = pod.get("status") or {}
    said = message_of(pod)
    if said.get("reason"):
        return str(said["reason"])
    for state in container_states(pod):
        waiting = state.get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in ("ContainerCreating", "PodInitializing"):
            return _sentence(waiting["reason"], waiting.get("message", ""))
    ended: dict[str, Any] = next(
        (state["terminated"] for state in container_states(pod) if state.get("terminated")), {}
    )
    if ended.get("exitCode"):
        reason = ended.get("reason", "")
        return reason if reason not in ("", "Error") else f"exit code {ended['exitCode']}"
    if status.get("reason") or status.get("message"):
        return _sentence(status.get("reason", ""), status.get("message", ""))
    for one in status.get("conditions") or []:
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message") or one.get("reason") or "")
    return ""


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message


def pod_row(pod: Object) -> dict[str, Any]:
    """Return what a pod does, for people and programs."""
    status = pod.get("status") or {}
    phase = str(status.get("phase", "Unknown"))
    running = is_running(pod)
    return {
        "pod": metadata_of(pod).get("name", ""),
        "number": number_of(pod),
        "node": (pod.get("spec") or {}).get("nodeName") or "",
        "phase": "Terminating" if metadata_of(pod).get("deletionTimestamp") else phase,
        "restarts": restarts(pod),
        "reason": "" if running or phase == "Succeeded" else why(pod),
    }
