# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of a job: their request, their file among the results, and their loop.

A measurement runs a job several times as trials of itself, and writes what came of it to one file after each, so that
the same command continues an interrupted one. What differs is a subclass, see `kinds`: what to vary, how to read a run,
when to stop, how to tell.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from ansible_collections.amx.cluster.plugins.module_utils import _collection, _io
from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory, optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import inventory_optimize
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs

State = TypeVar("State", bound=Document)
"""The content of a measurement's file."""
Begun = TypeVar("Begun")


@dataclass(frozen=True)
class Cluster:
    """Facts of the inventory that a measurement needs.

    hosts: all that may be used, the head first. prefix: the directory on each with the jobs. backend, cores, optimize:
    for jobs that leave them open. inventory: where it is on the control node.
    """

    hosts: list[str]
    prefix: str = ""
    backend: str = "auto"
    cores: Any = field(default_factory=dict)
    optimize: Any = optimizing.AUTO
    inventory: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """Facts from outside of the control node. hosts: {name: those of this host}. head: those of the head."""

    hosts: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)


class Measurement(ABC, Generic[State]):
    """A measurement of a job that was requested. Making one raises ValueError with all that is wrong with the request.

    job, hosts: those of the trials. content: how it would begin. path: of its file. options: as `given` returns them.
    """

    TITLE: ClassVar[str]
    """Its name in messages."""
    PLAYBOOK: ClassVar[str]
    EXAMPLE: ClassVar[str] = "jobs/demo.yml"
    DIRECTORY: ClassVar[str]
    """Its results lie in JOB-DIRECTORY/FILE."""
    FILE: ClassVar[str]
    VERSION: ClassVar[int]
    DOCUMENT: ClassVar[type[Document]]
    MORE_HOSTS: ClassVar[bool] = False
    """Whether it can go on with more hosts than before, or fewer."""
    OPTIONS: ClassVar[Mapping[str, Any]]
    """What a user can set with -e, with its default, besides the job, `override` and `again`."""

    hosts: list[str]
    content: State

    def __init__(self, options: Mapping[str, Any], cluster: Cluster, results: Path) -> None:
        self.options = {**self.OPTIONS, **{name: value for name, value in options.items() if value is not None}}
        self.cluster, self.results = cluster, results.expanduser().absolute()
        self.again = truth("again", options.get("again") or False)
        if not options.get("job"):
            raise ValueError(f"no job was named: add -e job=FILE, such as -e job={self.EXAMPLE}")
        self.job = load(Path(options["job"]), self.override())
        inventory_optimize(self.cluster.optimize)
        self.prepare()
        self.path = self.results / f"{self.job.name}-{self.DIRECTORY}" / self.FILE

    def override(self) -> Any:
        """Return the fields that win over the job file's."""
        return self.options.get("override")

    @abstractmethod
    def prepare(self) -> None:
        """Check the request, and set hosts and content. Raises ValueError with all that is wrong, a line each."""

    # what there is already

    def earlier(self) -> State | None:
        """Return the measurement of this job that is to go on; None where a new one is to begin.

        Raises ValueError where it can neither begin nor go on.
        """
        if self.again or not self.path.exists():
            return None
        document = _io.read_json(self.path)
        if document is None:
            raise ValueError(f"{self.path} is not complete JSON: add -e again=true to start anew; it is moved aside")
        different = runs.differences(document, self.content.to_json(), self.VERSION, self.PLAYBOOK, self.MORE_HOSTS)
        if different:
            lines = "\n".join(f"- {line}" for line in different)
            raise ValueError(
                f"{self.path} is the {self.TITLE} of another request, and results of both cannot be mixed:\n{lines}\n"
                f"Undo the change to continue that {self.TITLE}, or add -e again=true to start this one; the other is "
                "moved aside."
            )
        return self._read(document)

    def begin(self, facts: Found, dry: bool) -> State:
        """Return the earlier measurement, continued, or a new one.

        dry: whether another measurement in the place of a new one is not moved aside.
        """
        earlier = self.earlier()
        if earlier is None and not dry:
            set_aside(self.path)
        return self.begun(self.continued(earlier) if earlier else self.content, facts)

    def current(self) -> State:
        """Return the content of the measurement's file. Raises ValueError where there is none."""
        return self._read(recorded(self.path))

    def interrupted(self) -> list[str]:
        """Return the jobs that were started and whose end the file has not: they may be running still."""
        document = _io.read_json(self.path) or {}
        return self.unfinished(self._read(document)) if document.get("version") == self.VERSION else []

    def begun_run(self, running: Begun | None) -> Begun:
        """Return the run that the file has as begun. Raises ValueError where it has none."""
        if running is None:
            raise ValueError(f"{self.path} has no run that was begun: run the same command again")
        return running

    def _read(self, document: Mapping[str, Any]) -> State:
        return cast(State, self.DOCUMENT.from_json(document))

    def write(self, state: State) -> None:
        """Write the measurement's file, and what lies beside it."""
        _io.write_json(self.path, state.to_json())

    # its row: what to vary, how to read a run, when to stop, how to tell

    @abstractmethod
    def continued(self, earlier: State) -> State:
        """Return an earlier measurement as it goes on."""

    def questions(self) -> dict[str, Any]:
        """Return what the role asks hosts before the first trial."""
        return {}

    def begun(self, state: State, facts: Found) -> State:
        """Return the measurement with what hosts have said before the first trial."""
        return state

    @abstractmethod
    def ended(self, state: State) -> bool:
        """Return whether nothing is left to do in a measurement that is new or as it goes on."""

    @abstractmethod
    def unfinished(self, state: State) -> list[str]:
        """Return the jobs that were started without recording their end."""

    @abstractmethod
    def next(self, state: State, now: float) -> tuple[State, Any]:
        """Return the measurement as it goes on, and its next run, which begins now; None where none is left.

        A run is a Document with the name of its `job`.
        """

    @abstractmethod
    def trial(self, state: State, run: Any, now: float) -> dict[str, Any]:
        """Return how the job is turned into a run: the arguments of derive.trial."""

    @abstractmethod
    def recorded(self, state: State, tried: Mapping[str, Any], facts: Found, now: float) -> tuple[State, str]:
        """Return the measurement with what came of the run that was begun, and a line that says it.

        tried: {job, state, reason, plan, progress, outcome}, what the role job has found of it. Raises Stopped.
        """

    @abstractmethod
    def status(self, state: State) -> str:
        """Return in one line how far it has come."""

    @abstractmethod
    def planned(self, state: State) -> str:
        """Return what would be run, for check mode."""

    @abstractmethod
    def text(self, state: State, wrote: str) -> str:
        """Return what came of it, for a person. wrote: the files to which `applied` has written it."""

    def applied(self, state: State, dry: bool) -> tuple[State, str]:
        """Apply what came of it where that is requested; return the content to show, and the names of the files."""
        return state, ""

    def failed(self, state: State) -> str:
        """Return why nothing at all came of it; an empty string where something did."""
        return ""


class Stopped(ValueError):
    """A measurement cannot go on after a run: the message says why. content: with this run."""

    def __init__(self, message: str, state: Document) -> None:
        super().__init__(message)
        self.content = state


def set_aside(path: Path) -> None:
    """Make the directory of a measurement's file; an earlier one is moved aside. Raises OSError."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.set_aside(path.parent)
    if aside:
        path.parent.rename(aside)
    path.parent.mkdir(mode=0o700)


def recorded(path: Path) -> dict[str, Any]:
    """Return the content of a measurement's file. Raises ValueError where there is none."""
    document = _io.read_json(path)
    if document is None:
        raise ValueError(f"{path} is missing, or is not complete JSON")
    return document


def contents(job: Job) -> dict[str, str]:
    """Return {name: SHA-256} of the files that make a job what it is. Raises ValueError."""
    digests = {"project": project.scan(job.project, job.project_max_mb).digest()} if job.project else {}
    for path in [job.script, *([job.prepare.script] if job.prepare else [])]:
        if path.is_absolute() and not job.project:
            digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_relative_to(archive.DIRECTORY):
            digests["programs"] = archive.name(archive.of_directory(_collection.ROOT / path.parent))
    return digests


def whole(name: str, value: object, least: int) -> int:
    """Return a whole number of a request. Raises ValueError."""
    text = str(value).strip()
    if isinstance(value, (bool, float)) or not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise ValueError(f"{name}: {value} is not a whole number of at least {least}")
    return int(text)


def truth(name: str, value: object) -> bool:
    """Return yes or no of a request, which text may say as YAML does. Raises ValueError."""
    text = str(value).strip().lower()
    if text not in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        raise ValueError(f"{name}: {value!r} is not true or false")
    return text in ("true", "yes", "on", "1")


def listed(value: object) -> list[Any]:
    """Return a list of a request, which may be text such as "1,2,4" or [1, 2]; a single value is a list of one."""
    if isinstance(value, str):
        return [word for word in re.split(r"[\s,]+", value.strip("[] ")) if word]
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def checked(reader: Any, errors: list[str], *arguments: Any) -> Any:
    """Return what a reader returns; None where it refuses, and its reason is among the errors then."""
    try:
        return reader(*arguments)
    except ValueError as error:
        errors.append(str(error))
        return None
