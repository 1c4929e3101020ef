# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What requests of sweeps, tunings, inference benchmarks and predictions have in common, on the control node."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Generic, TypeVar

from ansible import context
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job, load

# The options of all actions that measure a job, documented in doc_fragments/requested.py.
ARGUMENTS: dict[str, Any] = {
    "file": {"type": "str", "default": ""},
    "override": {"type": "raw"},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "results": {"type": "path", "required": True},
    "again": {"type": "bool", "default": False},
}
# What a user can set with -e for all of them.
OPTIONS = ("job", "override", "format", "query", "output")


def plain(value: object) -> Any:
    """Return a value of Ansible's as plain data, which can be merged and copied."""
    return json.loads(json.dumps(value))


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def contents(job: Job) -> dict[str, str]:
    """Return {name: SHA-256} of the files that make a job what it is. Raises ValueError."""
    project = project_files.read(job)["project"]
    found = {"project": str(project["digest"])} if project else {}
    for path in [job.script, *([job.prepare.script] if job.prepare else [])]:
        if path.is_absolute() and not project:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def job(options: Mapping[str, Any], example: str = "jobs/demo.yml") -> Job:
    """Return the job of the options, see ARGUMENTS. example: a job file for the message. Raises ValueError."""
    if not options["file"]:
        raise ValueError(f"no job was named: add -e job=FILE, such as -e job={example}")
    return load(Path(options["file"]), plain(options["override"]))


Request = TypeVar("Request")


@dataclass(frozen=True)
class Measurement(Generic[Request]):
    """A measurement of a job that was requested.

    what: its name in messages. content: how it would begin. path: of its file among the results. differences: returns
    what keeps an earlier content from being continued as this one, a line for each. continued: returns an earlier
    content as it goes on.
    """

    what: str
    job: Job
    hosts: list[str]
    request: Request
    content: dict[str, Any]
    path: Path
    differences: Callable[[Mapping[str, Any], Mapping[str, Any]], Sequence[str]]
    continued: Callable[[Mapping[str, Any]], dict[str, Any]]

    def earlier(self) -> dict[str, Any] | None:
        """Return the measurement of this job that there is already."""
        return read_json(self.path)

    def refuse(self, again: bool) -> None:
        """Raise ValueError where it can neither begin nor go on, for what is in its file."""
        if again or not self.path.exists():
            return
        earlier = self.earlier()
        if earlier is None:
            raise ValueError(f"{self.path} is not complete JSON: add -e again=true to start anew; it is moved aside")
        found = self.differences(earlier, self.content)
        if found:
            lines = "\n".join(f"- {line}" for line in found)
            raise ValueError(
                f"{self.path} is the {self.what} of another request, and results of both cannot be mixed:\n{lines}\n"
                f"Undo the change to continue that {self.what}, or add -e again=true to start this one; the other is "
                "moved aside."
            )

    def begin(self, again: bool, check_mode: bool) -> dict[str, Any]:
        """Return its content: the earlier one, continued, or a new one, for which the earlier is moved aside.

        Raises ValueError and OSError.
        """
        self.refuse(again)
        earlier = None if again else self.earlier()
        if earlier:
            return self.continued(earlier)
        if not check_mode:
            begin_anew(self.path)
        return self.content


def recorded(path: Path) -> dict[str, Any]:
    """Return the content of a measurement's file. Raises ValueError where there is none."""
    content = read_json(path)
    if content is None:
        raise ValueError(f"{path} is missing, or is not complete JSON")
    return content


def begin_anew(path: Path) -> None:
    """Make the directory of a measurement's file; an earlier one is moved aside. Raises OSError."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.set_aside(path.parent)
    if aside:
        path.parent.rename(aside)
    path.parent.mkdir(mode=0o700)


def refuse_misspelt(loader: Any, options: Sequence[str]) -> None:
    """Raise ValueError where a variable that a user has set with -e nearly is one of the options."""
    said = misspelt(list(load_extra_vars(loader)), options) if context.CLIARGS else ""
    if said:
        raise ValueError(said)


def misspelt(names: Sequence[str], options: Sequence[str]) -> str:
    """Return what is wrong with the names of a user's variables: one that nearly is an option is a mistake."""
    for name in names:
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.8)
        if near and name not in options:
            return f"{name}: unknown option; did you mean {near[0]}?"
    return ""
