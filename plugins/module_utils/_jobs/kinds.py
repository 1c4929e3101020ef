# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of job: what the script of a job needs and can do, asked here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What is true of every job of a kind.

    needs_group: its ranks must form one process group of all ranks. takes_trainer_arguments: the launch adds
    TrainingArguments (CPU, backend, bf16, checkpoints). can_resume: it resumes from a checkpoint of transformers'
    Trainer.
    """

    name: str
    description: str
    needs_group: bool
    takes_trainer_arguments: bool
    can_resume: bool


TRAINER = Kind("trainer", "a script that trains with transformers' Trainer", True, True, True)
TORCH = Kind("torch", "a script of one's own that calls torch.distributed itself", True, False, False)
RANKS = Kind("ranks", "independent ranks that need not know of each other", False, False, False)
INFERENCE = Kind("inference", "independent ranks that measure inference", False, False, False)
VERIFICATION = Kind("verification", "ranks that report where they run", True, False, False)

KINDS = {kind.name: kind for kind in (TRAINER, TORCH, RANKS, INFERENCE, VERIFICATION)}
# Those that a job file can name; the others are derived.
IN_JOB_FILES = (TRAINER.name, TORCH.name, RANKS.name, INFERENCE.name)
