# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights & Biases in a script: without a network, and as one run of a job."""

from __future__ import annotations

import re

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

NAME = "wandb"


def variables(job: Job, start: str) -> dict[str, str]:
    """Return the variables of wandb for a job that uses it; none for another one. The job's own win over them.

    start: what tells this start from every other one. A restart goes on with the same run. Offline runs are written
    into output/, which is fetched with the results.
    """
    reports = job.args.get("report_to", [])
    named = {NAME, "all"}.intersection([reports] if isinstance(reports, str) else reports)
    if not named and not any(
        re.fullmatch(rf"{NAME}(\[.*)?", requirement.partition("==")[0]) for requirement in job.requirements
    ):
        return {}
    variables = {"WANDB_MODE": "offline", "WANDB_DIR": "output", "WANDB_RUN_ID": start, "WANDB_RESUME": "allow"}
    return {name: value for name, value in variables.items() if name not in (*job.env_from, *job.secrets)}
