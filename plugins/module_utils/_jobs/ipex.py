# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which part of a job calls ipex.optimize of Intel Extension for PyTorch, as the plan says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, catalogue

NOBODY = (
    "IPEX does nothing in this job: nobody calls ipex.optimize with {versions}. Install accelerate 1.7.0 with "
    "transformers 4.53 to 4.55 (stacks ipex-2.8 and ipex-2.8-gloo), or call it in the script (docs/stacks.md)."
)
SCRIPT = "IPEX: ipex.optimize where the script calls it{accelerate}."
UNSURE = (
    " In bf16 on several ranks, linear layers do not learn with transformers 4.52.4, accelerate 1.7.0 and IPEX 2.8: "
    "check that the loss falls, else set use_ipex: false in args."
)
# IPEX keeps each rank's fp32 weights from before DistributedDataParallel sends rank 0's bf16 weights to all, and trains
# those: ranks whose initial weights differ train different models.
SEED = (
    " In bf16, each rank trains from its own initial weights: the script must set the seed before it makes the model, "
    "the same on every rank."
)
# Adafactor averages over rows and columns of weights, which IPEX has packed into other shapes.
ADAFACTOR = " With Adafactor in bf16, updates differ from those without IPEX: set use_ipex: false in args."
# It decides what an Accelerator does; only where it is not set, the Trainer sets it by --use_ipex.
VARIABLE = "ACCELERATE_USE_IPEX"
DEVICE = "ACCELERATE_TORCH_DEVICE"
ACCELERATOR = f", and by accelerate where it has an Accelerator, unless env has {VARIABLE}: false"
FALSE = ("0", "false", "f", "no", "n", "off")
TRUE = ("1", "true", "t", "yes", "y", "on")
MIXED_PRECISION = "ACCELERATE_MIXED_PRECISION"
CPU = "ACCELERATE_USE_CPU"


def environment(job: Job, stack: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables with which models that accelerate gives ipex.optimize are trained.

    On several ranks, and on one that a launcher started, accelerate's device is cpu:0, of which PyTorch makes a copy of
    all weights: those that IPEX has packed for linear layers stay as they were, and the model computes with them to the
    end. With the device cpu, nothing is copied. Seen with transformers 4.55.4, accelerate 1.7.0 and IPEX 2.8 in bf16.
    Raises ValueError where the job's env sets a variable to what accelerate cannot read, or to such a device.
    """
    versions = catalogue.versions_of(stack)
    trains = job.of_kind().takes_trainer_arguments or job.kind == kinds.TORCH.name
    if not (trains and arguments.IPEX in versions and arguments.accelerate_calls_ipex(versions)):
        return {}
    own = job.env.get(VARIABLE, "true")
    if own.lower() not in (*TRUE, *FALSE):
        raise ValueError(f"env: {VARIABLE}: {own!r} is neither true nor false: accelerate would end with an error")
    if job.env.get(DEVICE, "cpu") != "cpu":
        raise ValueError(
            f"env: {DEVICE}: {job.env[DEVICE]} is another device than cpu, on which IPEX does not train: leave it out"
        )
    return {DEVICE: "cpu"}


def _own_precision(job: Job) -> str:
    """Return bf16 where a job requests it by its arguments or variables, whatever its field precision says."""
    args = {name: str(value).lower() for name, value in job.named_args().items()}
    named = (args.get("mixed_precision"), job.env.get(MIXED_PRECISION, "").lower())
    return "bf16" if "bf16" in named or args.get("bf16", "false") in TRUE else ""


def describe(job: Job, stack: Mapping[str, Any], precision: str = "fp32", several: bool = False) -> str:
    """Return the line of a plan on IPEX; empty for a stack without IPEX, and for jobs that do not train.

    stack: an entry of the catalogue, or the one that an environment makes. several: whether there are several ranks.
    """
    versions = catalogue.versions_of(stack)
    if arguments.IPEX not in versions:
        return ""
    is_bf16 = "bf16" in (precision, _own_precision(job))
    is_bf16_on_several = several and is_bf16
    if job.kind == kinds.TORCH.name:
        line = SCRIPT.format(accelerate=ACCELERATOR if arguments.accelerate_calls_ipex(versions) else "")
        return line + (SEED if is_bf16_on_several else "")
    if not job.of_kind().takes_trainer_arguments:
        return ""
    own = job.named_args()
    flags = {**stack.get("arguments", {}).get("ipex", {}), **own}
    caller = arguments.ipex_caller(versions)
    variable = job.env.get(VARIABLE, "").lower()
    if variable and caller != arguments.TRAINER:
        if variable in FALSE:
            return f"IPEX: not used, as the job's env has {VARIABLE}: {variable}."
        caller = arguments.ACCELERATE if arguments.accelerate_calls_ipex(versions) else ""
    elif caller and arguments.by_version(versions, "gloo")["ipex"] and _is_off(flags.get("use_ipex", False)):
        return "IPEX: not used, as use_ipex is false in the job's args, or left out of the stack's arguments."
    if caller:
        note = UNSURE if caller == arguments.TRAINER else SEED
        is_adafactor = is_bf16 and (own.get("optim") == "adafactor" or not _is_off(own.get("adafactor", False)))
        return f"IPEX: ipex.optimize by {caller}." + ADAFACTOR * is_adafactor + note * is_bf16_on_several
    pins = [f"{name} {versions[name]}" for name in ("torch", "transformers", "accelerate") if name in versions]
    return NOBODY.format(versions=", ".join(pins))


def _is_off(value: object) -> bool:
    """Return whether transformers' HfArgumentParser reads a value of a switch as false."""
    return str(value).lower() in FALSE
