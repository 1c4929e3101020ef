# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a script's own Trainer that are not those of its job, as of one that reads no arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

PRECISIONS = ("bf16", "fp16")
"""Arguments of the Trainer that set another precision than the plan's."""


def note(training: Mapping[str, Any], job: Job, status: Mapping[str, Any], precision: str) -> str:
    """Return which settings of the job the script has not taken, and what to do; empty where it has taken all.

    training: of progress.json, with "settings" as the observer of rank 0 saw them. status: with the batch of the last
    attempt. precision: of the plan.
    """
    seen = training.get("settings") or {}
    if not seen or not job.of_kind().takes_trainer_arguments:
        return ""
    per_device, own = status.get("per_device"), job.named_args()
    batch = status["ranks"] * status["accumulation"] * per_device if per_device else None
    wanted = {
        "global_batch": ("a global batch of {} samples", batch),
        "precision": ("{}", None if any(name in own for name in PRECISIONS) else precision),
        "checkpoints": ("a checkpoint each {} steps", job.checkpoints.steps if job.checkpoints else None),
    }
    others = [
        f"{text.format(seen[name])} and not {value}" if seen[name] else f"no {text.format(value).removeprefix('a ')}"
        for name, (text, value) in wanted.items()
        if value and seen.get(name) is not None and seen[name] != value
    ]
    if not others:
        return ""
    return (
        f"the script trained with {', '.join(others)}: it sets these itself. Have it read its arguments "
        "(docs/own_train_py.md), or set them there"
    )
