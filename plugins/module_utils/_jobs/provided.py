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


def sources(job: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return {name in the hosts' cache: source} of one of a job's fields models, data and metrics."""
    return {f"{CACHED[field]}/{name}": source for name, source in job[field].items()}


def links(job: Mapping[str, Any], cached: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return {path in the job directory: where it lies on the host} of the models, data and metrics of a job.

    cached: {name in the host's cache: directory}. others: further links; one to nowhere is left out. A metric
    lies in the job directory itself, where evaluate.load finds it by its name; what is not cached yet is left out.
    """
    wanted = {name: name for field in DIRECTORIES for name in sources(job, field)}
    wanted.update({name.partition("/")[2]: name for name in sources(job, "metrics")})
    made = {path: cached[name] for path, name in wanted.items() if name in cached}
    return {**made, **{path: target for path, target in others.items() if target}}
