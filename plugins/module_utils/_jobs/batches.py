# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The global batch of a job, and how another number of ranks keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._text import count

# The arguments of transformers' Trainer.
ACCUMULATION = "gradient_accumulation_steps"
PER_DEVICE = "per_device_train_batch_size"
AT_ONCE = 8  # the Trainer's default of it


@dataclass(frozen=True)
class Batch:
    """Composition of a step: each rank adds up `accumulation` batches of `per_device` samples.

    per_device is 0 where the script's arguments do not tell; then sizes are counted in such batches.
    """

    ranks: int
    accumulation: int
    per_device: int

    @property
    def size(self) -> int:
        """Samples of one step."""
        return self.ranks * self.accumulation * max(1, self.per_device)

    def arguments(self) -> dict[str, int]:
        """Return the script's arguments for it."""
        return {ACCUMULATION: self.accumulation, **({PER_DEVICE: self.per_device} if self.per_device else {})}


def of_arguments(args: Mapping[str, Any], world_size: int) -> Batch:
    """Return what a script's arguments, with dashes or underscores in their names, make of a step."""
    values = {name.replace("-", "_"): str(value) for name, value in args.items()}
    accumulation, per_device = values.get(ACCUMULATION, "1"), values.get(PER_DEVICE, "0")
    return Batch(
        world_size,
        int(accumulation) if accumulation.isdecimal() else 1,
        int(per_device) if per_device.isdecimal() else 0,
    )


def of_job(job: Job, world_size: int) -> Batch:
    """Return what a job makes of a step: its global_batch divided among the ranks, else what its arguments make.

    A rank takes no more samples at once than per_device_train_batch_size. What the ranks do not divide, as after a
    restart on fewer hosts, becomes the nearest size; for "<=N" the largest below of which a rank takes at least half as
    many at once as it may: 73 samples one by one would take much longer than 9 times 8.
    """
    if not job.global_batch:
        return of_arguments(job.args, world_size)
    size, is_limit = _wanted(job.global_batch)
    most = job.named_args().get(PER_DEVICE, AT_ONCE)
    share = max(1, size // world_size if is_limit else round(Fraction(size, world_size)))
    while is_limit and 2 * _divisors(share, most)[-1] < min(share, most):
        share -= 1
    at_once = _divisors(share, most)[-1]
    return Batch(world_size, share // at_once, at_once)


def arguments(job: Job, world_size: int) -> dict[str, Any]:
    """Return the arguments of a job's script, with those that follow from its global_batch."""
    follow = of_job(job, world_size).arguments() if job.global_batch else {}
    return {**{name: value for name, value in job.args.items() if name.replace("-", "_") not in follow}, **follow}


def refusal(wanted: int | str | None, ranks: Sequence[int]) -> str:
    """Return why a job's global_batch cannot be divided among its ranks, with what can be; empty where it can.

    ranks: the number of them on each host.
    """
    size, is_limit = _wanted(wanted or "<=0")
    total = sum(ranks)

    def fits(number: int) -> bool:
        return size >= number and (is_limit or size % number == 0)

    if not wanted or not total or fits(total):
        return ""
    each, hosts = ranks[0], len(ranks)
    same = len(set(ranks)) == 1
    choices = {
        "ranks_per_node": [number for number in range(1, each) if same and fits(number * hosts)],
        "hosts": [number for number in range(1, hosts) if same and fits(number * each)],
        "global_batch": [number for number in (size // total * total, (size // total + 1) * total) if number],
    }
    shown = 1 if is_limit else 3  # below a limit, each number would do
    remedies = [f"{name} {' or '.join(map(str, numbers[-shown:]))}" for name, numbers in choices.items() if numbers]
    if size < total:
        problem = f"a rank would have less than one row: {count(size, 'sample')} for {count(total, 'rank')}"
    else:
        problem = f"{size} samples cannot be divided among {total} ranks"
        remedies.append(f'global_batch "<={size}"')
    return f"global_batch: {problem}: set {', or '.join(remedies)}"


def _wanted(value: int | str) -> tuple[int, bool]:
    """Return the samples of a global_batch, and whether they are a limit."""
    return int(str(value).removeprefix("<=")), str(value).startswith("<=")


def _divisors(number: int, most: int) -> list[int]:
    return [divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0]


def text(job: Job, world_size: int) -> str:
    """Return the global batch of a training by the Trainer, and what it is made up of."""
    batch = of_arguments({PER_DEVICE: AT_ONCE, **arguments(job, world_size)}, world_size)
    accumulated = f" x {batch.accumulation} accumulated" if batch.accumulation > 1 else ""
    made_of = f"{count(world_size, 'rank')} x {batch.per_device}{' at once' if accumulated else ''}{accumulated}"
    source = f", from global_batch: {job.global_batch}" if job.global_batch else ""
    return f"Each step trains on a global batch of {count(batch.size, 'sample')} ({made_of}){source}."


def of_run(status: Mapping[str, Any], otherwise: Batch) -> Batch:
    """Return the batch of an earlier run, from what its status tells; `otherwise` has what it does not."""
    return Batch(
        status.get("ranks") or otherwise.ranks,
        status.get("accumulation") or otherwise.accumulation,
        status.get("per_device") or otherwise.per_device,
    )


def kept(before: Batch, world_size: int) -> Batch:
    """Return the batch of so many ranks that is as large as another, or comes nearest to it.

    The samples that a rank takes at once stay as they are where that is possible. Otherwise they become as many as
    fit, at most half more than before: their activations are what a larger batch needs memory for.
    """
    if not before.per_device:
        return Batch(world_size, max(1, round(Fraction(before.size, world_size))), 0)
    share = max(1, round(Fraction(before.size, world_size)))
    divisors = _divisors(share, share)
    below = max(number for number in divisors if number <= before.per_device)
    above = min((number for number in divisors if number > before.per_device), default=share)
    at_once = above if 2 * below < before.per_device and 2 * above <= 3 * before.per_device else below
    return Batch(world_size, share // at_once, at_once)


def change(before: Batch, after: Batch, requested: Batch, step: int) -> str:
    """Return the change of the global batch, and of the place in the epoch at `step`, as text; empty without one.

    requested: what the job file asks of these ranks. The Trainer finds its place by steps of the new size.
    """
    if after.size == before.size:
        if after == requested:
            return ""
        at_once = f" of {after.per_device} samples" if after.per_device != requested.per_device else ""
        return f"the global batch stays as it was, with {after.accumulation} steps of accumulation{at_once}"
    text = f"the global batch is {Fraction(after.size, before.size)} of what it was"
    if before.per_device:
        samples = step * (before.size - after.size)
        again = "trained on again" if samples > 0 else "left out"
        text += f" ({after.size} samples instead of {before.size}), so {abs(samples)} samples are {again}"
    return text
