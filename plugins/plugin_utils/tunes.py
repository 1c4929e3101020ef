# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tunings on the control node: the request with its job, and tune.json among the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job, load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import choose_hosts
from ansible_collections.amx.cluster.plugins.module_utils._measure import job_text, trials, tune_request
from ansible_collections.amx.cluster.plugins.plugin_utils import sweeps

# The options of the actions that belong to a tuning.
ARGUMENTS: dict[str, Any] = {
    "file": {"type": "str", "default": ""},
    "override": {"type": "raw"},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "results": {"type": "path", "required": True},
    "budget": {"type": "raw", "default": 30},
    "steps": {"type": "raw", "default": 10},
    "warmup_steps": {"type": "raw", "default": 3},
    "repeats": {"type": "raw", "default": 3},
    "tune_batch": {"type": "bool", "default": False},
    "vary": {"type": "raw", "default": []},
    "again": {"type": "bool", "default": False},
}
# What a user can set with -e, of which a name that nearly is one of them is a mistake.
OPTIONS = ("job", "override", "format", "query", "output", "write", *ARGUMENTS)


@dataclass(frozen=True)
class Wanted:
    """A tuning that was requested. content: how it would begin. path: of tune.json."""

    job: Job
    hosts: list[str]
    request: tune_request.Request
    content: dict[str, Any]
    path: Path

    def earlier(self) -> dict[str, Any] | None:
        """Return the tuning of this job that there is already."""
        return read_json(self.path)


def read(options: Mapping[str, Any]) -> Wanted:
    """Read the job and check the request. options: see ARGUMENTS. Raises ValueError, which says what is wrong."""
    if not options["file"]:
        raise ValueError("no job was named: add -e job=FILE, such as -e job=jobs/demo.yml")
    job = load(Path(options["file"]), sweeps.plain(options["override"]))
    hosts = choose_hosts(job, options["hosts"])
    request = tune_request.read({**options, "vary": sweeps.plain(options["vary"])}, job)
    content = trials.new(job, request, sweeps.contents(job), sweeps.now())
    path = Path(options["results"]).expanduser().absolute() / f"{job.name}-tune" / trials.FILE
    return Wanted(job, hosts, request, content, path)


def refusal(wanted: Wanted, again: bool) -> str:
    """Return why the tuning cannot begin, or go on, for what is among the results; an empty string when it can."""
    return sweeps.refused("tuning", wanted.path, again, lambda earlier: trials.differences(earlier, wanted.content))


def misspelt(names: Sequence[str]) -> str:
    """Return what is wrong with the names of a user's variables, as sweeps.misspelt does."""
    return sweeps.misspelt(names, OPTIONS)


def diff(content: Mapping[str, Any], job: Job) -> tuple[str, str]:
    """Return the diff that makes the winner of a job file, and the file's text after it; empty where there is none.

    Raises OSError, and ValueError where the file cannot be changed by lines.
    """
    changes = trials.changes(content, job)
    if not changes:
        return "", ""
    before = job.file.read_text(encoding="utf-8")
    after = job_text.changed(before, changes)
    return job_text.diff(before, after, job.file.name), after
