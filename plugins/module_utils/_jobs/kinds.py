# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of job: what the script of a job needs and can do, asked here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import BENCHMARK


@dataclass(frozen=True)
class Kind:
    """Properties of every job of a kind.

    in_job_files: whether a job file can name it; other kinds are derived. required: the fields that a job file of this
    kind must have besides its name. needs_group: whether its ranks must form one process group of all ranks.
    communicates: whether they may; where they do not, the allocation has no communication cores.
    takes_trainer_arguments: whether the launch adds TrainingArguments (CPU, backend, bf16, checkpoints). can_resume:
    whether it resumes from a checkpoint of transformers' Trainer. playbook: the playbook that runs it. program: its
    script, by its path in the collection, where that brings it along.
    """

    name: str
    description: str
    in_job_files: bool = True
    required: tuple[str, ...] = ("script",)
    needs_group: bool = True
    communicates: bool = True
    takes_trainer_arguments: bool = False
    can_resume: bool = False
    playbook: str = "train.yml"
    program: Path | None = None


TRAINER = Kind(
    "trainer", "a script that trains with transformers' Trainer", takes_trainer_arguments=True, can_resume=True
)
TORCH = Kind("torch", "a script of one's own that forms the group of ranks itself (torch.distributed, accelerate)")
RANKS = Kind("ranks", "independent ranks that need not know of each other", needs_group=False)
INFERENCE = Kind(
    "inference",
    "independent ranks that measure inference",
    required=("inference",),
    needs_group=False,
    communicates=False,
    playbook="infer.yml",
    program=BENCHMARK,
)
VERIFICATION = Kind("verification", "ranks that report where they run", in_job_files=False)

KINDS = {kind.name: kind for kind in (TRAINER, TORCH, RANKS, INFERENCE, VERIFICATION)}
IN_JOB_FILES = tuple(name for name, kind in KINDS.items() if kind.in_job_files)
