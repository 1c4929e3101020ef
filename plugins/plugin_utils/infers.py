# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inference benchmarks on the control node: the request with its job, and inference.json among the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_field import Inference
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job, load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import choose_hosts
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference, inference_matrix
from ansible_collections.amx.cluster.plugins.plugin_utils import requested

# The fields of `inference` in a job file that a user can also set with -e.
FIELDS = ("budget", "p99_ms", "agreement")
# The options of the actions that belong to an inference benchmark.
ARGUMENTS: dict[str, Any] = {
    **requested.ARGUMENTS,
    "prefix": {"type": "path", "required": True},
    **{name: {"type": "raw"} for name in FIELDS},
}
# What a user can set with -e, of which a name that nearly is one of them is a mistake.
OPTIONS = (*requested.OPTIONS, *ARGUMENTS)


@dataclass(frozen=True)
class Wanted:
    """A benchmark that was requested. content: how it would begin. models: see inference_matrix. path: of its file."""

    job: Job
    hosts: list[str]
    request: Inference
    models: dict[str, dict[str, Any]]
    content: dict[str, Any]
    path: Path

    def earlier(self) -> dict[str, Any] | None:
        """Return the benchmark of this job that there is already."""
        return read_json(self.path)


def read(options: Mapping[str, Any]) -> Wanted:
    """Read the job and check the request. options: see ARGUMENTS. Raises ValueError, which says what is wrong."""
    if not options["file"]:
        raise ValueError("no job was named: add -e job=FILE, such as -e job=jobs/inference.yml")
    job = load(Path(options["file"]), _override(options))
    request = inference_matrix.request(job)
    hosts = choose_hosts(job, options["hosts"])
    try:
        derived(job, "infer-999")
    except ValueError as error:
        raise ValueError(f"{error}; set a shorter name in {job.file}") from None
    models = inference_matrix.models(job, options["prefix"])
    content = inference.new(job, requested.contents(job), hosts, requested.now())
    path = Path(options["results"]).expanduser().absolute() / f"{job.name}-inference" / inference.FILE
    return Wanted(job, hosts, request, models, content, path)


def _override(options: Mapping[str, Any]) -> Any:
    """Return the fields that win over the job file's, with those of `inference` that have options of their own."""
    given = requested.plain(options["override"]) or {}
    wins = {name: _number(options[name]) for name in FIELDS if options.get(name) is not None}
    if not wins or not isinstance(given, dict):
        return given
    own = given.get("inference")
    return {**given, "inference": {**(own if isinstance(own, dict) else {}), **wins}}


def _number(value: Any) -> Any:
    """Return what -e name=VALUE gives as text as the number that a job file would have; other text as it is."""
    try:
        return float(value) if isinstance(value, str) else requested.plain(value)
    except ValueError:
        return str(value)


def refusal(wanted: Wanted, again: bool) -> str:
    """Return why the benchmark cannot begin, or go on, for what is among the results; an empty string when it can."""
    return requested.refused(
        "inference benchmark", wanted.path, again, lambda earlier: inference.differences(earlier, wanted.content)
    )
