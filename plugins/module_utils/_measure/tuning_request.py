# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tuning requests: how long, and how its trials are made; checked before any host is contacted."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import CORES, Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import BACKENDS

# The settings of a job that a tuning changes.
VARIED = (*CORES, "backend")
# Seconds that a trial takes at least, whatever the job is: its checks, its plan and its launch.
LEAST_SECONDS = 6


@dataclass(frozen=True)
class Request:
    """budget_minutes: for all trials together. steps: of a trial in round 1, after warmup_steps that do not count.

    repeats: of the final comparison, of each side. batch: whether other batch sizes are tried, too. vary: the settings
    that are changed.
    """

    budget_minutes: float
    steps: int = 10
    warmup_steps: int = 3
    repeats: int = 3
    batch: bool = False
    vary: tuple[str, ...] = VARIED

    def compared(self) -> dict[str, Any]:
        """Return what must be the same for a tuning to be continued: all but the budget."""
        return {
            **{name: value for name, value in asdict(self).items() if name != "budget_minutes"},
            "vary": [*self.vary],
        }


def read(options: Mapping[str, Any], job: Job) -> Request:
    """Return the request that a user's options make: budget, steps, warmup_steps, repeats and tune_batch.

    Raises ValueError with everything that is wrong, a line each.
    """
    errors: list[str] = []
    values: dict[str, Any] = {"batch": bool(options["tune_batch"])}
    for name, least in (("steps", 1), ("warmup_steps", 0), ("repeats", 2)):
        text = str(options[name]).strip()
        if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < least:
            errors.append(f"{name}: {options[name]!r} is not a whole number of at least {least}")
        else:
            values[name] = int(text)
    try:
        budget = float(str(options["budget"]))
    except ValueError:
        budget = math.nan
    if not 0 < budget < math.inf:
        errors.append(f"budget: {options['budget']!r} is not a number of minutes above 0")
    elif "repeats" in values:
        runs = 2 + 2 * values["repeats"]
        least_minutes = runs * LEAST_SECONDS / 60
        if budget < least_minutes:
            errors.append(
                f"budget: {budget:g} min are too short for the job's own settings, one other trial and the final "
                f"comparison, {runs} runs of at least {LEAST_SECONDS} s each: set at least {least_minutes:.1f}, or "
                "fewer repeats"
            )
    values["budget_minutes"] = budget
    given = options.get("vary") or VARIED
    words = re.split(r"[\s,]+", given.strip("[] ")) if isinstance(given, str) else [str(each) for each in given]
    values["vary"] = tuple(name for name in VARIED if name in words)
    errors += [f"vary: {name} is not one of {', '.join(VARIED)}" for name in words if name not in VARIED]
    if not job.of_kind().needs_group:
        errors.append(
            f"job {job.name} is of kind {job.kind}: its ranks do not train together, there is nothing to tune"
        )
    try:
        derived(job, "tune-999")
    except ValueError as error:
        errors.append(f"{error}; set a shorter name in {job.file}")
    if errors:
        raise ValueError("\n".join([f"job {job.name} cannot be tuned, nothing was started:", *errors]))
    return Request(**values)


def backends(job: Job, inventory: str) -> dict[str, list[str]]:
    """Return for each backend of a stack those that the job can be tried with, its own first; none where it has none.

    inventory: the inventory's backend, for jobs that leave it open.
    """
    found: dict[str, list[str]] = {}
    for stack, there in BACKENDS.items():
        try:
            own = Run(job, Settings("", backend=inventory)).backend(stack)
        except ValueError:
            found[stack] = []
            continue
        usable = [name for name in there if name in LAUNCHERS[job.launcher].backends]
        # Gradients are compressed by the backend mpi alone.
        others = [] if job.gradient_compression != "none" else [name for name in usable if name != own]
        found[stack] = [own, *others]
    return found
