# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtimes that there are: a new one is a file beside this one and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.hosts import Hosts
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.kubernetes import Kubernetes
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import NO_NAME, Runtime
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.slurm import Slurm

# A job that several of them have is the first one's.
RUNTIMES: tuple[type[Runtime], ...] = (Hosts, Slurm, Kubernetes)


def configured(action: ActionBase, variables: Mapping[str, Any]) -> list[Runtime]:
    """Return the runtimes that the inventory has. action, variables: as for Runtime."""
    every = (runtime(action, variables) for runtime in RUNTIMES)
    return [runtime for runtime in every if runtime.is_configured()]


def named(name: str, action: ActionBase, variables: Mapping[str, Any]) -> Runtime:
    """Return the runtime of a name, as Launcher.runtime has it."""
    return next(runtime for runtime in RUNTIMES if runtime.name == name)(action, variables)


def having(job: str, action: ActionBase, variables: Mapping[str, Any]) -> Runtime:
    """Return the runtime that has a job. Raises ValueError where none does, or one that might cannot be asked.

    Where there is one runtime, it tells itself that it has no such job.
    """
    if not job:
        raise ValueError(NO_NAME)
    there = configured(action, variables)
    if len(there) == 1:
        return there[0]
    first = next((runtime for runtime in there if runtime.has(job)), None)
    if first is None:
        raise ValueError(there[-1].missing(job))
    for other in there[there.index(first) + 1 :]:
        note = other.also_has(job)
        if note:
            first.show(note)
    return first
