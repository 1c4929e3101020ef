# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that is to be started, as the control node hands it to the head: one document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import instances
from ansible_collections.amx.cluster.plugins.module_utils._jobs.placing import Placement
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import submitting
from ansible_collections.amx.cluster.plugins.module_utils._stacks.venv import MARKER


@dataclass(frozen=True)
class Start(Document):
    """A job that is to be started, in one document.

    jobs: the directory of job directories, the same on every host. plan: as plan.json has it. files: of the job
    directory, beside those that follow from run and plan; files_of_head: of the head alone. links, links_of, project,
    secrets, keep_previous, resume, predicts: as placing.Placement has them. source: the host from which the head, which
    has none, copies the directory of the previous run; empty for none. prepared: the name of the job whose prepared
    data are used; empty where the job prepares its own. planning: for a job that is submitted to Slurm, what it is
    planned from: prefix, environment and runtime, as plan has them, network, fabric, tcmalloc, backends, request
    and refuse_memory, as the control node has them; plan has no hosts then.
    """

    jobs: str
    run: Run
    plan: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    files_of_head: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    links_of: dict[str, dict[str, str]] = field(default_factory=dict)
    project: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    keep_previous: bool = True
    resume: bool = False
    source: str = ""
    prepared: str = ""
    predicts: bool = False
    planning: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Start:
        request = super().from_json(document)
        plan = Plan.from_json(request.plan)
        if not (plan.environment and plan.runtime and (plan.hosts or request.planning)):
            raise ValueError("this is no plan: it lacks environment, runtime or hosts")
        return request

    @property
    def path(self) -> Path:
        """Return the directory of the job."""
        return Path(self.jobs) / self.run.job.name

    def placement(self) -> Placement:
        """Return the directory that all hosts get. Raises OSError and ValueError."""
        stack = json.loads(Path(self.plan["environment"], MARKER).read_text(encoding="utf-8"))
        job = self.run.job
        return Placement(
            path=str(self.path),
            head=self.run.settings.head,
            start=self.run.settings.start,
            files={
                **self.files,
                **(
                    submitting.files(self.run, self.planning, str(self.path))
                    if self.planning
                    else run_files(Plan.from_json(self.plan), self.run, stack)
                ),
                **_project_files(self.project),
            },
            links=self.links,
            links_of=self.links_of,
            project=self.project,
            store=f"{Path(self.jobs).parent}/cache/projects/files",
            secrets=self.secrets,
            keep_previous=self.keep_previous,
            resume=self.resume,
            data_of=f"{self.jobs}/{self.prepared}" if self.prepared and job.prepare else "",
            predicts=self.predicts,
            served=job.launcher == instances.LAUNCHER.name,
            known=directory.jobs(Path(self.jobs)),
        )


def _project_files(description: dict[str, Any]) -> dict[str, str]:
    """Return the files beside a project's tree: what is in it, and what an installation adds."""
    if not description:
        return {}
    listed = {name: description[name] for name in ("digest", "directory", "files", "links")}
    installed = {f"{project.DIRECTORY}/{name}": text for name, text in description["installed"].items()}
    return {project.LISTING: json.dumps(listed, indent=1) + "\n", **installed}
