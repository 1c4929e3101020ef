# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a job: the job, and where and for whom this cluster runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS


@dataclass(frozen=True)
class Settings:
    """Settings of a run besides its job file.

    head: the host that launches and supervises it; head_address, head_interface: its address on the cluster network,
    and the interface that has it, which may have another name on other hosts. world_timeout: seconds that rank 0 waits
    for the others. shared_directory: whether the hosts share the job directories. user, since: who started it on the
    control node, and when (ISO 8601, UTC). backend, cores, optimize: the inventory's, for a job that leaves them open;
    cores is a mapping of CORES or of some of them, optimize has the values of the field. start: tells this start from
    every other one. project: what project.Project.summary returns, and `paths`, the directories in the job directory
    from which its modules are imported; empty without one. host_price: what a host costs an hour, as the inventory has
    it. notices: the address of the hosts' metadata service, which announces that a host is taken back (http://ADDRESS);
    empty where there is none. given: the options of the command that has started it, for one that continues it.
    slurm: the inventory's cluster_slurm, None where it has none.
    """

    head: str
    head_address: str = ""
    head_interface: str = ""
    world_timeout: int = 60
    shared_directory: bool = False
    user: str = ""
    since: str = ""
    start: str = ""
    backend: str = "auto"
    cores: dict[str, Any] = field(default_factory=dict)
    optimize: Any = optimizing.AUTO
    project: dict[str, Any] = field(default_factory=dict)
    host_price: str = ""
    notices: str = ""
    given: str = ""
    slurm: dict[str, Any] | None = None


@dataclass(frozen=True)
class Run(Document):
    """A job with its settings, as job.json in the job directory has it."""

    job: Job
    settings: Settings

    def backend(self, stack: str) -> str:
        """Return the backend of this run with a stack of that catalogue.backend_key.

        Raises ValueError where it cannot be had.

        The inventory's is for jobs that leave it open and whose launcher and stack have it. Ranks of inference form no
        group: theirs is the one without communication cores and libraries of its own, which every stack has.
        """
        if not self.job.of_kind().communicates:
            return "gloo"
        launcher = LAUNCHERS[self.job.launcher]
        if self.job.backend == "auto" and self.settings.backend != "auto":
            with contextlib.suppress(ValueError):
                return launcher.backend(self.settings.backend, stack)
        return launcher.backend(self.job.backend, stack)

    def optimized(self, stack: Mapping[str, Any]) -> list[str]:
        """Return which parts of a step are optimized with an entry of the catalogue. Raises ValueError."""
        return optimizing.parts(self.job.optimize, self.job.kind, stack, self.settings.optimize)


def members(settings: Settings, hosts: Sequence[str]) -> list[str]:
    """Return the hosts that take part in a run, the head first: it launches the job even where it runs no rank."""
    return list(dict.fromkeys([settings.head, *hosts]))
