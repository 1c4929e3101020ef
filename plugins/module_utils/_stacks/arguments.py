# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of a job for transformers' TrainingArguments, whose names differ by version."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# What each version's training_args.py has, read from the wheels 4.24.0, 4.28.1, 4.29.0, 4.31.0, 4.32.0, 4.35.2, 4.55.4,
# 4.56.2, 5.0.0 and 5.1.0, and from the release notes between them. (first version with it, first version without it)
# bf16 is there from 4.11 on, in every version that can train on CPUs.
XPU_BACKEND = ((4, 11, 3), (4, 32))
DDP_BACKEND = (4, 29)
CCL_CHOICE_GONE = (5, 1)
USE_CPU = (4, 32)
IPEX = "intel-extension-for-pytorch"
USE_IPEX = ((4, 20), (4, 57))
# Who calls ipex.optimize: seen with torch 2.6 to 2.8, transformers 4.48.3 to 5.0.0 and accelerate 1.6.0 to 1.12.0, read
# from accelerate 0.26.0 to 1.13.0. Since 1.8 accelerate does so only with torch before 2.7, and since 1.13 never. The
# Trainers of 4.57 forbid it to do so, those of 5 leave it to accelerate, which then does so unasked.
TRAINER, ACCELERATE = "the Trainer", "accelerate"
TRAINER_IPEX_GONE = (4, 53)
ACCELERATE_IPEX = ((1, 8), (1, 13))
ACCELERATE_IPEX_TORCH = (2, 7)
TRAINER_LETS_ACCELERATE = (5,)
# The versions read that shard by FSDP2, and by the bare argument; with versions of accelerate that do so as well.
SHARDING = (5, 20)
# accelerate chooses ccl up to 1.12; from 1.13 on it does not know it.
ACCELERATE_CCL_GONE = (1, 13)
# Arguments that decide where a script computes and how its ranks talk: the launcher alone sets them.
DEVICE_ARGUMENTS = ("use_cpu", "no_cuda")
BACKEND_ARGUMENTS = ("ddp_backend", "xpu_backend")
NO = ("", "0", "f", "false", "n", "no", "none")
"""Values, in lower case, with which an argument is off: those of transformers' HfArgumentParser, and none."""


def number(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "4.24.0" is (4, 24, 0), "2.8.0+cpu" is (2, 8, 0).

    Raises ValueError when it begins with none.
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    if not match:
        raise ValueError(f"{version!r} is not a version such as 4.24.0")
    return tuple(int(part) for part in match.group().split("."))


def accelerate_calls_ipex(versions: Mapping[str, str]) -> bool:
    """Return whether accelerate calls ipex.optimize for an Accelerator; versions: {package: version}, IPEX included."""
    if not {"torch", "accelerate"} <= set(versions):
        return False
    gone, gone_for_all = ACCELERATE_IPEX
    have = number(versions["accelerate"])
    return have < gone or (have < gone_for_all and number(versions["torch"]) < ACCELERATE_IPEX_TORCH)


def ipex_caller(versions: Mapping[str, str]) -> str:
    """Return who calls ipex.optimize for a script that uses the Trainer: TRAINER, ACCELERATE, or "" for nobody."""
    if not {IPEX, "transformers"} <= set(versions):
        return ""
    have = number(versions["transformers"])
    if USE_IPEX[0] <= have < TRAINER_IPEX_GONE:
        return TRAINER
    forbidden = have < USE_IPEX[0] or USE_IPEX[1] <= have < TRAINER_LETS_ACCELERATE
    return ACCELERATE if accelerate_calls_ipex(versions) and not forbidden else ""


def by_version(versions: Mapping[str, str], backend: str) -> dict[str, dict[str, Any]]:
    """Return {"cpu", "distributed", "bf16", "ipex"}: each the arguments for it in these versions.

    versions: {package: version}, that of transformers among them. backend: "mpi", "gloo" or "ccl". "ipex" is empty
    where nobody would call ipex.optimize, or needs no argument for it. Raises ValueError when transformers cannot train
    with this backend, or not in bf16, on CPUs.
    """
    transformers = versions["transformers"]
    have = number(transformers)
    if backend not in ("mpi", "gloo", "ccl"):
        raise ValueError(f"backend {backend!r} is not one of mpi, gloo, ccl")
    if have < XPU_BACKEND[0]:
        raise ValueError(
            f"transformers {transformers} cannot distribute training over CPUs: 4.11.3 is the first version that can"
        )
    if backend == "ccl" and have >= CCL_CHOICE_GONE:
        raise ValueError(
            f"transformers {transformers} does not have the backend ccl: 5.0.0 is the last version that does; "
            "take it, or backend gloo"
        )
    return {
        "cpu": {"use_cpu": True} if have >= USE_CPU else {"no_cuda": True},
        "distributed": {"ddp_backend" if have >= DDP_BACKEND else "xpu_backend": backend},
        # With a value, as TRL's parser wants it: its bf16 may also be None.
        "bf16": {"bf16": "true"},
        "ipex": {"use_ipex": True} if ipex_caller(versions) and have < USE_IPEX[1] else {},
    }


def is_on(value: object) -> bool:
    """Return whether the value of an argument switches it on."""
    return bool(value) and str(value).lower() not in NO


def checkpoints(wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the Trainer's arguments for {steps, keep}, the same in every version: a checkpoint each so many steps, of
    which the last `keep` stay (None: all)."""
    if not wanted:
        return {}
    kept = {"save_total_limit": wanted["keep"]} if wanted["keep"] else {}
    return {"save_strategy": "steps", "save_steps": wanted["steps"], **kept}


def sharding(wanted: str, transformers: str) -> dict[str, Any]:
    """Return the Trainer's arguments for the job field of this name: FSDP2, with checkpoints in shards.

    full: parameters, gradients and the state of the optimizer are sharded. optimizer: a rank has all parameters from
    the forward pass to the end of the backward pass. Raises ValueError for a version that cannot.
    """
    if wanted == "none":
        return {}
    if number(transformers) < SHARDING:
        raise ValueError(
            f"sharding: {wanted} needs transformers {'.'.join(map(str, SHARDING))} or newer, and this stack has "
            f"{transformers}: set cluster_stack: native, or leave it out"
        )
    config = {"version": 2, "state_dict_type": "SHARDED_STATE_DICT", "reshard_after_forward": wanted == "full"}
    return {"fsdp": True, "fsdp_config": json.dumps(config)}


def arguments(
    stack: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any], world_size: int, precision: str, backend: str
) -> dict[str, Any]:
    """Return a script's arguments: the job's `own`, and those added, by the stack's names (see by_version).

    Added are output_dir, CPU only, the backend when there is more than one rank, bf16 when that is the precision, and
    the Intel extension where the stack has it. backend: the job's, which need not be the stack's. Without the CPU
    argument every rank would train a model of its own, and with another backend none would find the others: the job's
    own arguments never win for these two, and always for anything else.
    Raises ValueError when the stack has no argument for CPU only.
    """
    if not stack.get("cpu"):
        raise ValueError(
            "the stack's arguments have none for cpu: without it every rank would train a model of its own; set "
            "arguments.cpu of the stack"
        )
    # What is sharded needs a group also where one rank is left to go on with its checkpoint.
    distributed = stack["distributed"] if world_size > 1 or "fsdp" in own else {}
    distributed = {name: backend if name in BACKEND_ARGUMENTS else value for name, value in distributed.items()}
    # HfArgumentParser takes its arguments with dashes, too.
    never = (*DEVICE_ARGUMENTS, *(BACKEND_ARGUMENTS if distributed else ()))
    kept = {name: value for name, value in own.items() if name.replace("-", "_") not in never}
    bf16 = stack["bf16"] if precision == "bf16" else {}
    # Environments of earlier versions name it without a value.
    bf16 = {name: "true" if value is True else value for name, value in bf16.items()}
    return {"output_dir": "output", **distributed, **bf16, **stack.get("ipex", {}), **kept, **stack["cpu"]}
