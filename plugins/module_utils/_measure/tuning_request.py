# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Request of a tuning: how long, and how its trials are made; checked before any host is contacted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs import optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import CORES
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._measure import trainings
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import checked, listed, truth, whole
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import BACKENDS

# The settings of a job that a tuning changes.
VARIED = (*CORES, "backend", "optimize")
# What the winner is written to.
WRITE_TO = ("job", "inventory")
# Seconds that a trial takes at least, whatever the job is: its checks, its plan and its launch.
LEAST_SECONDS = 6


@dataclass(frozen=True)
class Request:
    """budget: minutes of all trials together. steps: of a trial in round 1, after warmup_steps that do not count.

    repeats: of the final comparison, of each side. tune_batch: whether other batch sizes are tried, too. vary: the
    settings that are changed. env_values: {variable of the ranks: values that are tried}. write: whether the winner is
    written, write_to: to the job file or to the inventory.
    """

    budget: float = 30
    steps: int = 10
    warmup_steps: int = 3
    repeats: int = 3
    tune_batch: bool = False
    vary: tuple[str, ...] = VARIED
    env_values: dict[str, list[str]] = field(default_factory=dict)
    write: bool = False
    write_to: str = WRITE_TO[0]

    def compared(self) -> dict[str, Any]:
        """Return what must be the same for a tuning to be continued."""
        own = {name: getattr(self, name) for name in ("steps", "warmup_steps", "repeats")}
        env = {"env_values": self.env_values} if self.env_values else {}
        return {**own, "batch": self.tune_batch, "vary": [*self.vary], **env}


OPTIONS = asdict(Request())
"""What a user can set, with the defaults; vary: a list, text such as "ranks_per_node,backend", or empty for all."""


def read(options: Mapping[str, Any], job: Job) -> Request:
    """Return the request that a user's options make, see OPTIONS.

    Raises ValueError with everything that is wrong, a line each.
    """
    errors: list[str] = []
    leasts = {"steps": 1, "warmup_steps": 0, "repeats": 2}
    values = {name: checked(whole, errors, name, options[name], least) for name, least in leasts.items()}
    values.update({name: checked(truth, errors, name, options[name]) for name in ("tune_batch", "write")})
    values["write_to"] = options["write_to"]
    if options["write_to"] not in WRITE_TO:
        errors.append(f"write_to: {options['write_to']!r} is not one of {', '.join(WRITE_TO)}")
    try:
        budget = float(str(options["budget"]))
    except ValueError:
        budget = math.nan
    if not 0 < budget < math.inf:
        errors.append(f"budget: {options['budget']!r} is not a number of minutes above 0")
    elif values["repeats"]:
        runs = 2 + 2 * values["repeats"]
        least_minutes = runs * LEAST_SECONDS / 60
        if budget < least_minutes:
            errors.append(
                f"budget: {budget:g} min are too short for the job's own settings, one other trial and the final "
                f"comparison, {runs} runs of at least {LEAST_SECONDS} s each: set at least {least_minutes:.1f}, or "
                "fewer repeats"
            )
    values["budget"] = budget
    words = [str(each) for each in listed(options["vary"])] or VARIED
    values["vary"] = tuple(name for name in VARIED if name in words)
    errors += [f"vary: {_unknown(name)}" for name in words if name not in VARIED]
    values["env_values"] = checked(_env_values, errors, options["env_values"], job)
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


def _unknown(name: str) -> str:
    if name in trainings.VARIED:
        return f"{name} changes what the job learns: it is tuned alone, with -e vary={name}"
    return f"{name} is not one of {', '.join((*VARIED, *trainings.VARIED))}"


def _env_values(given: object, job: Job) -> dict[str, list[str]]:
    """Return the values of each variable that are tried. given: {variable: values}. Raises ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError(f"env_values: {given!r} is not a mapping such as {{CCL_ALLREDUCE: [ring, rabenseifner]}}")
    by_variable: dict[str, list[str]] = {}
    for name, values in given.items():
        for value in listed(values):
            try:
                checked_env = FIELDS["env"].form.check({name: value}, Place(job.file.parent))
            except ValueError as error:
                raise ValueError(f"env_values: {error}") from None
            if job.env.get(name) != checked_env[name]:
                by_variable.setdefault(str(name), []).append(checked_env[name])
    return by_variable


def backends(job: Job, inventory: str) -> dict[str, list[str]]:
    """Return for each catalogue.backend_key those to try the job with, its own first; none where it has none.

    inventory: the inventory's backend, for jobs that leave it open.
    """
    by_stack: dict[str, list[str]] = {}
    for stack in BACKENDS:
        try:
            own = Run(job, Settings("", backend=inventory)).backend(stack)
        except ValueError:
            by_stack[stack] = []
            continue
        usable = LAUNCHERS[job.launcher].usable(stack)
        # Gradients are compressed by the backend mpi alone.
        others = [] if job.gradient_compression != "none" else [name for name in usable if name != own]
        by_stack[stack] = [own, *others]
    return by_stack


def optimizes(job: Job, inventory: Any, stack: Mapping[str, Any], vary: Sequence[str]) -> list[Any]:
    """Return the values of optimize that the job can be tried with, its own first; none where there is no other one.

    inventory: cluster_optimize, for jobs that leave it open. stack: an entry of the catalogue.
    """
    if "optimize" not in vary or job.kind not in optimizing.TRAINING or not optimizing.has(stack):
        return []
    own = inventory if job.optimize is None else job.optimize
    parts = optimizing.parts(own, job.kind, stack)
    others = {optimizing.AUTO: list(optimizing.PARTS), optimizing.NONE: []}
    return [own, *(value for value, of_value in others.items() if of_value != parts)]
