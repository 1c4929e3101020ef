# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtimes, which start jobs and find them again: the interface behind job_start, job_status, job_log, job_stop and
job_fetch.

A launcher (module_utils/_jobs/launchers) writes what starts the ranks of a plan. A runtime starts that: on the hosts of
the inventory, or by the API of a cluster. It is made anew for each task, on the control node, and can run modules on
the task's host, which is the head.
"""

from __future__ import annotations

import json
import socket
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table

display = Display()

NO_NAME = "no job was named: add -e job=NAME, or its file; playbooks/status.yml lists all jobs"


@dataclass(frozen=True)
class Request:
    """A job that is to be started.

    run: the job and its settings. override: the fields that won over the job file's, of which secrets are read again.
    plan: as plan.make_plan returns it; empty for a runtime that plans where the ranks start. env: the inventory's
    variables for jobs that name them in env_from. resume: whether it goes on from its last complete checkpoint.
    prepared: the name of the job whose prepared data it uses; empty where it prepares its own. project: as
    project_files.read returns it. drawings: the core maps of hosts, {file: content}. cached: {host: {name: directory}}
    of its models, data and metrics. linked: further links of its directory. source: as readiness.resumption returns it.
    keep_previous: whether the directory of the previous run is moved aside. predicts: whether it is a prediction.
    shows_results: whether they are printed when it has ended. until_ready: whether it is followed only until its ranks
    serve a model.
    """

    run: Run
    override: Any = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False
    prepared: str = ""
    project: Mapping[str, Any] = field(default_factory=dict)
    drawings: Mapping[str, str] = field(default_factory=dict)
    cached: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    linked: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    keep_previous: bool = True
    predicts: bool = False
    shows_results: bool = True
    until_ready: bool = False


class JobEnded(Exception):
    """A job that was followed has ended without success. ended: as `Runtime.start` returns it."""

    def __init__(self, message: str, ended: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.ended = dict(ended)


@dataclass(frozen=True)
class Jobs:
    """The jobs of a runtime, as status shows them.

    entries: {name, path, status, progress, ranks, ...}, as the JSON document has them. problem: why they are not known.
    missing: what to answer where no runtime has the job that was named. document: further keys of the JSON document.
    notes: what is shown above the table of jobs. text: what is shown below it, about the jobs that were requested; no
    job is missing where there is any.
    """

    entries: Sequence[Mapping[str, Any]] = ()
    problem: str = ""
    missing: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    text: str = ""


@dataclass(frozen=True)
class Stopped:
    """Outcome of stopping a job.

    what: what `ended` has, such as "orphaned processes ended", in check mode "orphaned processes that would be ended".
    ended: what was ended or removed, a line each. missing: the message where there never was such a job, unless
    something is left of it. hosts: those on which processes of the job may be left; on each, `stop_rest` is run.
    note: what else a person needs to know, such as "its files stay on the volume".
    """

    was_running: bool
    what: str
    ended: Sequence[str] = ()
    missing: str = ""
    hosts: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Fetched:
    """A job directory that was fetched as a tar file.

    outcome: its results.json, or its status.json where there is none; with `started`, by which runs are distinguished.
    files: {name among the results: file on the control node} that are not in the tar file. facts: what else the JSON
    document has, such as bytes and sha256. note: the same for a person.
    """

    outcome: Mapping[str, Any]
    files: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


class Runtime(ABC):
    """Runtime of jobs. Its methods raise ValueError and OSError with what is wrong, naming playbooks/NAME.yml to run.

    name: as a launcher names it in `Launcher.runtime`.
    """

    name: ClassVar[str]

    def __init__(self, action: ActionBase, variables: Mapping[str, Any]) -> None:
        """action: of the task. variables: the task's, in which values may still be templates."""
        self.action, self.variables = action, variables

    # What it has

    def is_configured(self) -> bool:
        """Return whether the inventory has this runtime. No connection is made."""
        return True

    @abstractmethod
    def has(self, job: str) -> bool:
        """Return whether a job is, or was, here. job: its name, not empty."""

    def also_has(self, job: str) -> str:
        """Return a note for a job that another runtime has, too, and is the one that is meant; else nothing."""
        return ""

    @abstractmethod
    def missing(self, job: str) -> str:
        """Return the message for a job that no runtime has."""

    # What it does

    def plan(self, request: Request) -> None:
        """Check where the job is to run and show its plan, before any change, also in check mode.

        Nothing to do where the plan was made before, by the hosts' answers.
        """
        del request

    @abstractmethod
    def start(self, request: Request) -> dict[str, Any]:
        """Start a job that was planned, and follow it. Return {status, progress, outcome}.

        Not in check mode. Raises JobEnded where it did not succeed.
        """

    @abstractmethod
    def follow(self, job: str, *, shows_results: bool = True) -> dict[str, Any]:
        """Show the progress of a job that was started until it ends; return what `start` does. Raises JobEnded."""

    @abstractmethod
    def log(self, job: str) -> dict[str, Any]:
        """Show the log of a job until it ends; return what `start` does, as far as it is known. Raises JobEnded."""

    @abstractmethod
    def status(self, job: str, gathered: Mapping[str, Mapping[str, Any]]) -> Jobs:
        """Return the jobs of this runtime, or the one named. gathered: {host: what jobs_info returned there}."""

    @abstractmethod
    def details(self, entry: Mapping[str, Any]) -> str:
        """Return one of the jobs that `status` returned in full, for a person."""

    def where(self, entry: Mapping[str, Any]) -> str:
        """Return where a job is, for the table of all jobs; empty where that is on hosts of the inventory."""
        del entry
        return ""

    def owner(self, entry: Mapping[str, Any]) -> str:
        """Return who started a job, for the table of all jobs."""
        return str(entry.get("user") or "")

    @abstractmethod
    def stop(self, job: str) -> Stopped:
        """Stop a job; in check mode, return what would be."""

    def stop_rest(self, job: str) -> list[str]:
        """End what a job has left on the task's host, one of Stopped.hosts; return it as lines."""
        del job
        return []

    @abstractmethod
    def fetch(self, job: str, to: Path) -> Fetched:
        """Fetch the directory of a job into the tar file `to` on the control node. Not in check mode.

        `to` lies in a private directory, which is removed afterwards. Raises ValueError where the job has not ended.
        """

    # For runtimes

    @property
    def check_mode(self) -> bool:
        return bool(self.action._task.check_mode)

    def variable(self, name: str, default: Any = None) -> Any:
        """Return a variable of the task's host; else the default."""
        return self.action._templar.template(self.variables[name]) if name in self.variables else default

    def option(self, name: str) -> Any:
        """Return an option of a command: its variable of the task's host; else what the command line has."""
        (variable,) = table.BY_OPTION[name].variables
        template = self.action._templar.template
        if variable in self.variables:
            return template(self.variables[variable])
        return requested.read(self.action._loader, name, self.variables, template)

    def module(self, module: str, **options: Any) -> dict[str, Any]:
        """Return what a module returns on the task's host. Raises ValueError where it fails, with its message.

        Raises AnsibleConnectionFailure where the host does not answer.
        """
        answer = dict(
            self.action._execute_module(module_name=module, module_args=options, task_vars=dict(self.variables))
        )
        if answer.get("unreachable"):
            raise AnsibleConnectionFailure(str(answer.get("msg", "")))
        if answer.get("failed"):
            message = str(answer.get("stderr") or answer.get("msg") or f"{module} failed without a message").strip()
            raise ValueError(disk_problem(message, str(self.variables.get("inventory_hostname", ""))) or message)
        return answer

    def fetch_file(self, source: str, to: Path, *, required: bool = True) -> None:
        """Copy a file from the task's host to the control node. Raises ValueError where it cannot be, if required."""
        task = self.action._task.copy()
        task.args = {"src": source, "dest": str(to), "flat": True, "fail_on_missing": required}
        action = self.action._shared_loader_obj.action_loader.get(
            "ansible.builtin.fetch",
            task=task,
            connection=self.action._connection,
            play_context=self.action._play_context,
            loader=self.action._loader,
            templar=self.action._templar,
            shared_loader_obj=self.action._shared_loader_obj,
        )
        result = action.run(task_vars=dict(self.variables))
        if result.get("failed"):
            message = str(result.get("msg") or f"{source} cannot be fetched")
            raise ValueError(disk_problem(message, socket.gethostname(), str(to.parent)) or message)

    @staticmethod
    def show(text: str) -> None:
        """Print a text, in which a playbook becomes the command that runs it."""
        display.display(inventory_in_use.commands(text))


def packed_json(packed: Path, *names: str) -> dict[str, Any]:
    """Return the content of the first of these files that a packed job directory has; empty where it has none.

    Raises ValueError for what is no tar file.
    """
    try:
        with tarfile.open(packed) as archive:
            for path in (f"{inside}{name}" for name in names for inside in ("", "./")):
                with suppress(KeyError, ValueError):
                    stream = archive.extractfile(path)
                    if stream is not None:
                        return dict(json.load(stream))
    except tarfile.TarError as error:
        raise ValueError(f"{packed}: {error}") from None
    return {}
