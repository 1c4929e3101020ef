# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What requests of sweeps, tunings, inference benchmarks and predictions have in common, on the control node."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

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


def misspelt(names: Sequence[str], options: Sequence[str]) -> str:
    """Return what is wrong with the names of a user's variables: one that nearly is an option is a mistake."""
    for name in names:
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.8)
        if near and name not in options:
            return f"{name}: unknown option; did you mean {near[0]}?"
    return ""
