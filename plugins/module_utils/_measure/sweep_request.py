# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Request of a sweep: the same job on several numbers of hosts, checked before any host is contacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import Document
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.derive import derived, derived_name
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import checked, listed, truth, whole

STRONG, WEAK = "strong", "weak"
ONE_PROCESS = "one_process"
SANITY = "sanity"
# Steps of the sanity run: the first one compiles and allocates, the second one has gradients to exchange.
SANITY_STEPS = 2
# Of transformers' Trainer, where the job sets none.
SEED = 42


@dataclass(frozen=True)
class Request(Document):
    """Request of a sweep: how often, how long and on how many hosts a job is run.

    counts: numbers of hosts, ascending. steps, warmup_steps: of each run; the first warmup_steps are not measured. With
    these repeats and steps, a host that is 20 % slower is found where the steps of a rank vary by 30 %.
    """

    counts: list[int]
    repeats: int = 3
    steps: int = 75
    warmup_steps: int = 5
    scaling: str = STRONG
    constant_global_batch: bool = False


@dataclass(frozen=True)
class Run(Document):
    """A run of a sweep: the job on so many hosts, `names`, and what came of it, which is None before and if it failed.

    repeat: from 1; 0 is the sanity run. baseline: ONE_PROCESS, or None. seconds: of the run, epoch_seconds: of an
    epoch, extrapolated from the steps. step_seconds, measured: as results.json has them. global_batch: samples of a
    step over all ranks. environment: stack, precision and backend.
    """

    job: str
    hosts: int
    names: list[str]
    repeat: int
    baseline: str | None
    state: str = "pending"
    reason: str = ""
    ranks: int | None = None
    ranks_per_node: int | None = None
    threads_per_rank: int | None = None
    started: str | None = None
    seconds: float | None = None
    samples_per_second: float | None = None
    step_seconds: dict[str, float] | None = None
    global_batch: int | None = None
    epoch_seconds: float | None = None
    extrapolated: bool = True
    measured: dict[str, Any] | None = None
    warmup_included: bool = False
    environment: dict[str, Any] | None = None


OPTIONS: dict[str, Any] = {
    "counts": [],
    **{each.name: each.default for each in fields(Request) if each.name != "counts"},
}
"""What a user can set, with the defaults; counts: a list, text such as "1,2,4", or empty for 1, 2, 4, ... all."""


def read(options: Mapping[str, Any], job: Job, usable: Sequence[str]) -> Request:
    """Return the request that a user's options make.

    options: see OPTIONS. usable: the hosts of the cluster that the job can have, in their order.
    Raises ValueError with everything that is wrong, a line each.
    """
    errors: list[str] = []
    leasts = {"repeats": 1, "steps": 1, "warmup_steps": 0}
    values = {name: checked(whole, errors, name, options[name], least) for name, least in leasts.items()}
    values["counts"] = checked(_counts, errors, options["counts"], usable, job)
    values["scaling"] = options["scaling"]
    if options["scaling"] not in (STRONG, WEAK):
        errors.append(f"scaling: {options['scaling']!r} is not one of {STRONG}, {WEAK}")
    values["constant_global_batch"] = checked(truth, errors, "constant_global_batch", options["constant_global_batch"])
    if values["constant_global_batch"] or job.global_batch:
        values["constant_global_batch"] = True
        errors += _constant_batch(job, values["counts"] or [], str(options["scaling"]))
    if not job.of_kind().needs_group:
        errors.append(
            f"job {job.name} is of kind {job.kind}: its ranks do not train together, there is nothing to scale"
        )
    if not errors:
        try:
            longest = max(values["counts"])
            derived(job, _suffix(longest, values["repeats"], None))
            derived(job, SANITY)
        except ValueError as error:
            errors.append(f"{error}; set a shorter name in {job.file}")
    if errors:
        raise ValueError("\n".join([f"job {job.name} cannot be scaled, nothing was started:", *errors]))
    return Request(**values)


def default_counts(most: int) -> list[int]:
    """Return 1, 2, 4, ... and `most`."""
    counts = []
    count = 1
    while count < most:
        counts.append(count)
        count *= 2
    return [*counts, most]


def _counts(value: object, usable: Sequence[str], job: Job) -> list[int]:
    if isinstance(value, Mapping):
        raise ValueError(f"counts: {value!r} is not a list of numbers of hosts, such as 1,2,4")
    given = listed(value)
    if not given:
        return default_counts(len(usable))
    counts = sorted({whole("counts", each, 1) for each in given})
    if counts[-1] > len(usable):
        where = f"job {job.name} names" if isinstance(job.hosts, list) else "the inventory has"
        raise ValueError(
            f"counts: {counts[-1]} hosts are requested and {where} {len(usable)} ({', '.join(usable)}): leave it out, "
            "or add workers"
        )
    return counts


def _constant_batch(job: Job, counts: Sequence[int], scaling: str) -> list[str]:
    """Return why the global batch cannot be the same on each of these numbers of hosts."""
    if scaling == WEAK:
        name = "global_batch" if job.global_batch else "constant_global_batch"
        return [f"{name}: is for strong scaling; with weak scaling the work grows with the hosts"]
    if not job.of_kind().takes_trainer_arguments:
        return [f"constant_global_batch: needs the Trainer's arguments, and kind of job {job.name} is {job.kind}"]
    if job.global_batch:
        each = job.ranks_per_node if isinstance(job.ranks_per_node, int) else 1
        return [text for count in counts if (text := batches.refusal(job.global_batch, [each] * count))]
    batch = batches.of_arguments(job.args, 1)
    if not batch.per_device:
        return [f"constant_global_batch: {job.file} has no {batches.PER_DEVICE} in args: set it"]
    wrong = [count for count in counts if batches.kept(batch, count).size != batch.size]
    if not wrong:
        return []
    each = batch.size
    return [
        f"constant_global_batch: the {each} samples of a rank's step on one host cannot be divided among "
        f"{', '.join(map(str, wrong))} hosts: choose counts that divide {each}, or another {batches.PER_DEVICE} in "
        f"{job.file}"
    ]


def _suffix(count: int, repeat: int, baseline: str | None) -> str:
    return f"one-process-r{repeat}" if baseline else f"on-{count}-r{repeat}"


def runs(job: Job, usable: Sequence[str], request: Request) -> list[Run]:
    """Return the runs of a sweep, in their order, as sweep.json has them before they are made.

    The order of the counts is turned round from one repeat to the next, so that what changes slowly, such as the
    temperature of a machine, does not fall on one of them. Where the script decides how long a run takes, the first run
    is the one on all hosts, as it is the sanity run, too.
    """
    first_largest = not job.of_kind().takes_trainer_arguments
    made = []
    for repeat in range(1, request.repeats + 1):
        each: list[tuple[int, str | None]] = [(1, ONE_PROCESS), *((count, None) for count in request.counts)]
        if (repeat % 2 == 0) != first_largest:
            each.reverse()
        made += [_run(job, usable, count, repeat, baseline) for count, baseline in each]
    return made


def sanity(job: Job, usable: Sequence[str], request: Request) -> Run | None:
    """Return the short run on all hosts that comes before the others; None where the script decides its length."""
    if not job.of_kind().takes_trainer_arguments:
        return None
    return replace(_run(job, usable, request.counts[-1], 0, None), job=derived_name(job.name, SANITY))


def _run(job: Job, usable: Sequence[str], count: int, repeat: int, baseline: str | None) -> Run:
    return Run(derived_name(job.name, _suffix(count, repeat, baseline)), count, list(usable[:count]), repeat, baseline)


def _seeds(job: Job, repeat: int) -> dict[str, int]:
    """Return the seeds with which a repeat draws other batches than those before it; none for the job's own.

    With the same batches, the rank that got the longest texts would be the slowest in all repeats.
    """
    if repeat < 2 or not job.of_kind().takes_trainer_arguments:
        return {}
    own = {"seed": SEED, **{name: job.args[name] for name in ("seed", "data_seed") if name in job.args}}
    return {name: value + repeat - 1 for name, value in own.items() if isinstance(value, int)}


def trial(job: Job, request: Request, run: Run, ranks_per_node: int) -> dict[str, Any]:
    """Return how the job is turned into a run: the arguments of derive.trial, as the option job_trial has them.

    ranks_per_node: of the job on one host, which one process stands for where the global batch is constant.
    """
    fields: dict[str, Any] = {"hosts": list(run.names)}
    if run.baseline:
        # All cores, as a script has them that is started without the collection.
        fields.update(ranks_per_node=1, comm_cores=0, reserved_cores=0)
    if request.constant_global_batch and not job.global_batch:
        batch = batches.of_arguments(job.args, 1)
        if run.baseline:
            fields["args"] = {batches.ACCUMULATION: batch.accumulation * ranks_per_node}
        else:
            fields["args"] = batches.kept(batch, run.hosts).arguments()
    seeds = _seeds(job, run.repeat)
    if seeds:
        fields["args"] = {**fields.get("args", {}), **seeds}
    short = run.repeat == 0
    return {
        "suffix": run.job[len(job.name) + 1 :],
        "steps": SANITY_STEPS if short else request.steps,
        "warmup_steps": 0 if short else request.warmup_steps,
        "measure": not short,
        "fields": fields,
    }
