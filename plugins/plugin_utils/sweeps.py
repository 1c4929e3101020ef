# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps on the control node: the request with its job, and sweep.json among the results."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job, load
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep, sweep_request

# The options of the actions that belong to a sweep.
ARGUMENTS: dict[str, Any] = {
    "file": {"type": "str", "default": ""},
    "override": {"type": "raw"},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "results": {"type": "path", "required": True},
    "counts": {"type": "raw", "default": []},
    "repeats": {"type": "raw", "default": 3},
    "steps": {"type": "raw", "default": 20},
    "warmup_steps": {"type": "raw", "default": 5},
    "scaling": {"type": "str", "default": sweep_request.STRONG},
    "constant_global_batch": {"type": "bool", "default": False},
    "again": {"type": "bool", "default": False},
}
# What a user can set with -e, of which a name that nearly is one of them is a mistake.
OPTIONS = ("job", "override", "format", "query", "output", *ARGUMENTS)


@dataclass(frozen=True)
class Wanted:
    """A sweep that was requested: of which job, on which hosts, and how it would begin. path: of sweep.json."""

    job: Job
    hosts: list[str]
    request: sweep_request.Request
    content: dict[str, Any]
    path: Path

    def earlier(self) -> dict[str, Any] | None:
        """Return the sweep of this job that there is already."""
        return read_json(self.path)


def plain(value: object) -> Any:
    """Return a value of Ansible's as plain data, which can be merged and copied."""
    return json.loads(json.dumps(value))


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def read(options: Mapping[str, Any]) -> Wanted:
    """Read the job and check the request. options: see ARGUMENTS. Raises ValueError, which says what is wrong."""
    if not options["file"]:
        raise ValueError("no job was named: add -e job=FILE, such as -e job=jobs/demo.yml")
    job = load(Path(options["file"]), plain(options["override"]))
    hosts = sweep_request.candidates(job, options["hosts"])
    request = sweep_request.read({**options, "counts": plain(options["counts"])}, job, hosts)
    content = sweep.new(job, hosts, request, contents(job), now())
    path = Path(options["results"]).expanduser().absolute() / f"{job.name}-scale" / sweep.FILE
    return Wanted(job, hosts[: request.counts[-1]], request, content, path)


def contents(job: Job) -> dict[str, str]:
    """Return {name: SHA-256} of the files that make a job what it is. Raises ValueError."""
    project = project_files.read(job)["project"]
    found = {"project": str(project["digest"])} if project else {}
    for path in [job.script, *([job.prepare.script] if job.prepare else [])]:
        if path.is_absolute() and not project:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def refusal(wanted: Wanted, again: bool) -> str:
    """Return why the sweep cannot begin, or go on, for what is among the results; an empty string when it can."""
    return refused("sweep", wanted.path, again, lambda earlier: sweep.differences(earlier, wanted.content))


def refused(what: str, path: Path, again: bool, differences: Callable[[dict[str, Any]], Sequence[str]]) -> str:
    """Return why a measurement cannot begin, or go on, for what is in the file `path`; an empty string when it can.

    what: its name in the message. differences: what differs between its earlier content and what was requested.
    """
    if again or not path.exists():
        return ""
    earlier = read_json(path)
    if earlier is None:
        return f"{path} is not complete JSON: add -e again=true to start anew; it is moved aside"
    found = differences(earlier)
    if not found:
        return ""
    lines = "\n".join(f"- {line}" for line in found)
    return (
        f"{path} is the {what} of another request, and results of both cannot be mixed:\n{lines}\n"
        f"Undo the change to continue that {what}, or add -e again=true to start this one; the other is moved aside."
    )


def begin_anew(path: Path) -> None:
    """Make the directory of a measurement's file; an earlier one is moved aside. Raises OSError."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.set_aside(path.parent)
    if aside:
        path.parent.rename(aside)
    path.parent.mkdir(mode=0o700)


def misspelt(names: Sequence[str], options: Sequence[str] = OPTIONS) -> str:
    """Return what is wrong with the names of a user's variables: one that nearly is an option is a mistake."""
    for name in names:
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.8)
        if near and name not in options:
            return f"{name}: unknown option; did you mean {near[0]}?"
    return ""
