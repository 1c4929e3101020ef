# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs on Kubernetes for actions: the connection of cluster_kubernetes, and the one job that a task is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import derivation, jobs, live, settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.jobs import Found
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import Settings

# The options of every action about jobs on Kubernetes.
ARGUMENTS: dict[str, Any] = {
    "kubernetes": {"type": "raw", "required": True},
    "job": {"type": "str", "default": ""},
}
# What a user must be allowed to do, (verb, resource), to run commands in pods: servers check one or the other.
EXEC = (("get", "pods/exec"), ("create", "pods/exec"))
READER = (*((verb, "pods") for verb in ("get", "list", "create", "delete")), *EXEC)
LOG = (("get", "pods/log"),)


def connect(options: Mapping[str, Any], rights: Sequence[tuple[str, str]] = ()) -> tuple[Api, Settings]:
    """Return the connection and cluster_kubernetes. options: see ARGUMENTS. rights: those that are needed.

    Raises ValueError, with all rights that are missing.
    """
    chosen = settings.read(options["kubernetes"])
    api = Api.connect(getattr(chosen, "kubeconfig", ""), chosen.context)
    missing = [
        f"{verb} {resource}" for verb, resource in rights if not api.allowed(verb, resource, "", chosen.namespace)
    ]
    if missing:
        raise ValueError(
            f"context {api.context} may not {', '.join(missing)} in namespace {chosen.namespace}: have the role in "
            "roles/kubernetes/files/rbac.yml bound to its user"
        )
    return api, chosen


def object_name(job: str) -> str:
    """Return the name of the objects of a job; the name itself where no objects can have it."""
    try:
        return derivation.object_name(job)
    except ValueError:
        return job


def the_job(api: Api, chosen: Settings, name: str) -> Found:
    """Return the job of a name. Raises ValueError, with the jobs that are there, where there is none."""
    found = live.gather(api, chosen.namespace, object_name(name)) if name else []
    if not found:
        raise ValueError(missing(api, chosen, name))
    return found[0]


def missing(api: Api, chosen: Settings, name: str) -> str:
    """Return the message for a job that is not there. Raises ValueError."""
    if not name:
        return "no job was named: add -e job=NAME, or its file; playbooks/status.yml lists all jobs"
    return jobs.is_missing(name, chosen.namespace, live.gather(api, chosen.namespace))
