# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The global batch of a job, and how another number of ranks keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._text import count

# The arguments of transformers' Trainer.
ACCUMULATION = "gradient_accumulation_steps"
PER_DEVICE = "per_device_train_batch_size"


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
    """Return what a script's arguments make of a step."""
    accumulation, per_device = args.get(ACCUMULATION, 1), args.get(PER_DEVICE, 0)
    return Batch(
        world_size,
        accumulation if isinstance(accumulation, int) else 1,
        per_device if isinstance(per_device, int) else 0,
    )


def text(args: Mapping[str, Any], world_size: int) -> str:
    """Return the global batch of a training by the Trainer, and what it is made up of."""
    batch = of_arguments({PER_DEVICE: 8, **args}, world_size)  # the Trainer's default
    accumulated = f" x {batch.accumulation} (accumulation)" if batch.accumulation > 1 else ""
    made_of = f"{count(world_size, 'rank')} x {batch.per_device}{accumulated}"
    return f"Global batch: {count(batch.size, 'sample')} per step ({made_of})"


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
    divisors = [number for number in range(1, share + 1) if share % number == 0]
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
