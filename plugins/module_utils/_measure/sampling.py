# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders in which transformers' Trainer draws rows, and which of them can make a job faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, memory_check, padding_share
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

ARGUMENT = "train_sampling_strategy"
RANDOM, GROUPED, BALANCED = "random", "group_by_length", "batch_rebalance"
"""Those of transformers 5.23 that are tried: `sequential` is faster only where the rows of the file are sorted."""
# Share of computing that is not worth a trial; share of all epochs that may be missing of the last one.
LITTLE, PART = 0.01, 0.02


def strategies(own: str) -> list[str]:
    """Return the strategies that are tried, the job's own first."""
    return list(dict.fromkeys([own, RANDOM, GROUPED, BALANCED]))


def refusal(job: Job) -> str:
    """Return why no strategy makes a job faster, as its arguments show; empty for others."""
    if not memory_check.fills_rows(job):
        return ""
    return (
        f"the rows of job {job.name} all have the same length, so that no order is faster: let its script pad each "
        "batch to its longest row (--pad_to_max_length False of run_glue.py and run_qa.py), or do without packing"
    )


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
    model = (training.get("loss_weight") or {}).get("model")
    if ranks * batches.of_job(job, max(1, ranks)).accumulation == 1:
        reasons[BALANCED] = "a step is one batch of one rank, so that there is nothing to balance"
    elif model:
        reasons[BALANCED] = f"the loss of {model} is the mean of a batch: rows in small batches would weigh more"
    if abs(epochs - round(epochs)) > PART * epochs:
        why = f"the job makes {epochs:.2f} epochs, and {GROUPED} draws the longest rows of an epoch first"
        reasons.update(dict.fromkeys(others if own == GROUPED else [GROUPED], why))
    return {name: why for name, why in reasons.items() if name in others}


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
