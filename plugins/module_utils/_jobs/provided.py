# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the models, datasets and metrics that a job is provided with, in the hosts' cache and its directory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The field of a job, and the directory in the job directory that has what it provides.
DIRECTORIES = {"models": "models", "data": "datasets"}
# The same of the hosts' cache. In the job directory each metric has a directory of its own.
CACHED = {**DIRECTORIES, "metrics": "metrics"}
# Further directories that the job directory has of its own.
RESERVED = (*DIRECTORIES.values(), "data", "output", "packages", "project", "transformers")


def sources(job: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return {name in the hosts' cache: source} of one of a job's fields models, data and metrics."""
    return {f"{CACHED[field]}/{name}": source for name, source in job[field].items()}


def paths(job: Mapping[str, Any]) -> dict[str, str]:
    """Return {path in the job directory: name in the hosts' cache} of a job's models, data and metrics.

    A metric lies in the job directory itself, where evaluate.load finds it by its name. A dataset of the hub is there
    by its name on the hub as well, for scripts that load it by that: datasets takes such a directory first.
    """
    made = {name: name for field in DIRECTORIES for name in sources(job, field)}
    made.update({name.partition("/")[2]: name for name in sources(job, "metrics")})
    for name, source in sources(job, "data").items():
        owner, slash, _repository = source["hub"].partition("/")
        if slash and owner not in (*RESERVED, *job["metrics"]):
            made.setdefault(source["hub"], name)
    return made


def links(job: Mapping[str, Any], cached: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return {path in the job directory: where it lies on the host} of the models, data and metrics of a job.

    cached: {name in the host's cache: directory}. others: further links; one to nowhere is left out. What is not cached
    yet is left out.
    """
    made = {path: cached[name] for path, name in paths(job).items() if name in cached}
    return {**made, **{path: target for path, target in others.items() if target}}
