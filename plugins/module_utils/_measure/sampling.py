# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders in which transformers' Trainer draws rows, and which of them can make a job faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, memory_check, padding_share
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure import runs
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import number

ARGUMENT = "train_sampling_strategy"
RANDOM, GROUPED, BALANCED = "random", "group_by_length", "batch_rebalance"
"""Those of transformers 5.23 that are tried: `sequential` is faster only where the rows of the file are sorted."""
# The version of transformers that has it.
SINCE = (5,)
KNOWN = (RANDOM, "sequential", GROUPED, BALANCED)
# Share of computing that is not worth a trial; share of all epochs that may be missing of the last one, and of all rows
# that are drawn that may be sorted together.
LITTLE, PART = 0.01, 0.02
# Batches of a rank, with those that it adds up, that GROUPED sorts together: so many at most, and at most a quarter of
# an epoch (get_length_grouped_indices of transformers).
SORTED, QUARTERS = 50, 4


def strategies(own: str) -> list[str]:
    """Return the strategies that are tried, the job's own first."""
    return list(dict.fromkeys([own, RANDOM, GROUPED, BALANCED]))


def refusal(job: Job, own: str) -> str:
    """Return why no strategy can make a job faster, as its arguments show; empty for others. own: its strategy."""
    if GROUPED in job.named_args():
        return f"job {job.name} sets {GROUPED}, which transformers has before 5.0: {ARGUMENT} needs 5.0 or later"
    if own not in KNOWN:
        return f"args.{ARGUMENT} of {job.file}: {own} is not one of {', '.join(KNOWN)}"
    if not memory_check.fills_rows(job):
        return ""
    return (
        f"the rows of job {job.name} all have the same length, so that no order is faster: let its script pad each "
        "batch to its longest row (--pad_to_max_length False of run_glue.py and run_qa.py), or do without packing"
    )


def too_old(packages: Mapping[str, Mapping[str, str]]) -> str:
    """Return why hosts have no strategies to choose; empty where they may. packages: {host: {package: version}}."""
    for host, versions in packages.items():
        version = versions.get("transformers")
        if version and number(version) < SINCE:
            return f"{host} has transformers {version}: {ARGUMENT} needs 5.0 or later"
    return ""


def left_out(settings: Sequence[str], job: Job, tried: Mapping[str, Any]) -> dict[str, str]:
    """Return {strategy: why it is not tried}, as the first training of the job as it is shows.

    settings: the job's own first. tried: what the entry point trial of the role job returns of the training.
    """
    own, *others = settings
    progress = tried.get("progress") or {}
    training, epochs = progress.get("training") or {}, progress.get("epoch") or 0.0
    of_all = _without_gain(training) if own == RANDOM else ""
    if of_all:
        return dict.fromkeys(others, of_all)
    reasons = {}
    ranks = sum(len(host["ranks"]) for host in (tried.get("plan") or {}).get("hosts") or [])
    batch = batches.of_job(job, max(1, ranks))
    model = (training.get("loss_weight") or {}).get("model")
    if ranks * batch.accumulation == 1:
        reasons[BALANCED] = "a step is one batch of one rank, so that there is nothing to balance"
    elif model:
        reasons[BALANCED] = f"the loss of {model} is the mean of a batch: rows in small batches would weigh more"
    if abs(epochs - round(epochs)) > PART * epochs and _sorted_together(progress, batch) > PART:
        why = f"of {epochs:.2f} epochs, the last is cut short: the longest rows of up to {SORTED} batches come first"
        reasons.update(dict.fromkeys(others if own == GROUPED else [GROUPED], why))
    return {name: why for name, why in reasons.items() if name in others}


def _sorted_together(progress: Mapping[str, Any], batch: batches.Batch) -> float:
    """Return which share of all rows that were drawn GROUPED sorts together; 1 where that is not known."""
    rows, step, samples = runs.samples_per_epoch(progress), progress.get("step"), progress.get("samples_per_step")
    if not rows or not step or not samples:
        return 1.0
    own = batch.accumulation * (batch.per_device or batches.AT_ONCE)
    return own * max(1, min(rows // (QUARTERS * own), SORTED)) / (step * int(samples))


def _without_gain(training: Mapping[str, Any]) -> str:
    """Return why no strategy makes a training faster whose rows were drawn at random; empty where one may."""
    if training and "samples" not in training:
        return "the training data has no length, and the Trainer draws its rows one after the other"
    shares, ranks = padding_share.shares(training), (training.get("sums") or {}).get("ranks")
    if shares is None or shares[1] >= LITTLE or not ranks:
        return ""
    waiting = 0.0 if ranks == 1 else padding_share.waiting(training)
    if waiting is None or waiting >= LITTLE:
        return ""
    return f"there is nothing to gain: {shares[1]:.1%} of rank 0's positions were padding, {waiting:.1%} was waiting"
