# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps on the control node: the request with its job, and sweep.json among the results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep, sweep_request
from ansible_collections.amx.cluster.plugins.plugin_utils import requested

# The options of the actions that belong to a sweep.
ARGUMENTS: dict[str, Any] = {
    **requested.ARGUMENTS,
    "counts": {"type": "raw", "default": []},
    "repeats": {"type": "raw", "default": 3},
    "steps": {"type": "raw", "default": 20},
    "warmup_steps": {"type": "raw", "default": 5},
    "scaling": {"type": "str", "default": sweep_request.STRONG},
    "constant_global_batch": {"type": "bool", "default": False},
}
# What a user can set with -e, of which a name that nearly is one of them is a mistake.
OPTIONS = (*requested.OPTIONS, *ARGUMENTS)


Wanted = requested.Measurement[sweep_request.Request]


def read(options: Mapping[str, Any]) -> Wanted:
    """Read the job and check the request. options: see ARGUMENTS. Raises ValueError, which says what is wrong."""
    job = requested.job(options)
    hosts = sweep_request.candidates(job, options["hosts"])
    request = sweep_request.read({**options, "counts": requested.plain(options["counts"])}, job, hosts)
    content = sweep.new(job, hosts, request, requested.contents(job), requested.now())
    path = Path(options["results"]).expanduser().absolute() / f"{job.name}-scale" / sweep.FILE
    continued = partial(sweep.continued, wanted=content)
    return Wanted("sweep", job, hosts[: request.counts[-1]], request, content, path, sweep.differences, continued)
