# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inference benchmarks on the control node: the request with its job, and inference.json among the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_field import Inference
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
class Wanted(requested.Measurement[Inference]):
    """A benchmark that was requested. models: see inference_matrix."""

    models: dict[str, dict[str, Any]]


def read(options: Mapping[str, Any]) -> Wanted:
    """Read the job and check the request. options: see ARGUMENTS. Raises ValueError, which says what is wrong."""
    job = requested.job({**options, "override": _override(options)}, "jobs/inference.yml")
    request = inference_matrix.request(job)
    hosts = choose_hosts(job, options["hosts"])
    try:
        derived(job, "infer-999")
    except ValueError as error:
        raise ValueError(f"{error}; set a shorter name in {job.file}") from None
    models = inference_matrix.models(job, options["prefix"])
    content = inference.new(job, requested.contents(job), hosts, requested.now())
    path = Path(options["results"]).expanduser().absolute() / f"{job.name}-inference" / inference.FILE
    continued = partial(inference.continued, budget_minutes=request.budget)
    return Wanted("inference benchmark", job, hosts, request, content, path, inference.differences, continued, models)


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
