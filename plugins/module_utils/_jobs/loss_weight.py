# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Losses that transformers' Trainer weights otherwise than its log and clipping of gradients say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MENDED = "set `trainer.model_accepts_loss_kwargs = False` in the script, after it makes the Trainer"


def note(training: Mapping[str, Any]) -> str:
    """Return what is wrong with the losses of a training, and what to do; empty where nothing is known to be.

    training: of progress.json, with "loss_weight" as the observer of rank 0 saw it.
    """
    weight = training.get("loss_weight") or {}
    if not weight:
        return ""
    named = {"ranks": "ranks", "accumulation": "accumulation steps"}
    factors = [f"{weight[key]} {name}" for key, name in named.items() if weight[key] > 1]
    notes = []
    if factors:
        times = weight["ranks"] * weight["accumulation"]
        notes.append(
            f"losses and gradients of {weight['model']} are {times} times too large ({', '.join(factors)}): its loss "
            f"is the mean of a batch, and the Trainer takes it for a sum that was divided by the labels of all "
            f"batches. The log and train_loss show it, and gradients are clipped more: {MENDED}"
        )
    if weight["uneven"]:
        notes.append(
            f"rows in small batches weigh more: batch_rebalance gives ranks batches of other sizes, and the loss of "
            f"{weight['model']} is the mean of each. Set `--train_sampling_strategy group_by_length` instead"
        )
    return "; ".join(notes)
