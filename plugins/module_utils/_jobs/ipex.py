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
SEVERAL = (
    "IPEX: not used, as accelerate {accelerate} leaves linear layers untrained by it in bf16 on several ranks: take "
    "precision: fp32, without bf16 in args, or one rank, or call ipex.optimize in the script (docs/stacks.md)."
)
SCRIPT = "IPEX: ipex.optimize where the script calls it{accelerate}."
NOT_ACCELERATE = ", not by accelerate, with which linear layers would not learn in bf16 on several ranks"
UNSURE = (
    " In bf16 on several ranks, linear layers do not learn with transformers 4.52.4, accelerate 1.7.0 and IPEX 2.8: "
    "check that the loss falls, else set use_ipex: false in args."
)
# It decides what an Accelerator does; only where it is not set, the Trainer sets it by --use_ipex.
VARIABLE = "ACCELERATE_USE_IPEX"
ACCELERATOR = f", and by accelerate where it has an Accelerator, unless env has {VARIABLE}: false"
FALSE = ("0", "false", "f", "no", "n", "off")
TRUE = ("1", "true", "t", "yes", "y", "on")
MIXED_PRECISION = "ACCELERATE_MIXED_PRECISION"


def environment(job: Job, stack: Mapping[str, Any], precision: str, several: bool) -> dict[str, str]:
    """Return the variables that keep accelerate from calling ipex.optimize where the model would not be trained.

    Seen with transformers 4.55.4, accelerate 1.7.0 and IPEX 2.8: after Accelerator.prepare, in bf16 and on two ranks,
    no linear layer learns. One rank trains as without, and so does fp32. several: whether there are several ranks.
    Raises ValueError where the job's env sets the variable to what accelerate cannot read.
    """
    versions = catalogue.versions_of(stack)
    trains = job.of_kind().takes_trainer_arguments or job.kind == kinds.TORCH.name
    calls = arguments.IPEX in versions and arguments.accelerate_calls_ipex(versions)
    if job.of_kind().takes_trainer_arguments:
        calls = arguments.ipex_caller(versions) == arguments.ACCELERATE
    if not (trains and calls):
        return {}
    own = job.env.get(VARIABLE, "true")
    if own.lower() not in (*TRUE, *FALSE):
        raise ValueError(f"env: {VARIABLE}: {own!r} is neither true nor false: accelerate would end with an error")
    return {VARIABLE: "false"} if several and "bf16" in (precision, _own_precision(job)) else {}


def _own_precision(job: Job) -> str:
    """Return bf16 where a job requests it by its arguments or variables, whatever its field precision says."""
    args = {name.replace("-", "_"): str(value).lower() for name, value in job.args.items()}
    named = (args.get("mixed_precision"), job.env.get(MIXED_PRECISION, "").lower())
    return "bf16" if "bf16" in named or args.get("bf16", "false") in TRUE else ""


def describe(job: Job, stack: Mapping[str, Any], precision: str = "fp32", several: bool = False) -> str:
    """Return the line of a plan on IPEX; empty for a stack without IPEX, and for jobs that do not train.

    stack: an entry of the catalogue, or the one that an environment makes. several: whether there are several ranks.
    """
    versions = catalogue.versions_of(stack)
    if arguments.IPEX not in versions:
        return ""
    if environment(job, stack, precision, several) and VARIABLE not in job.env:
        if job.kind == kinds.TORCH.name:
            return SCRIPT.format(accelerate=NOT_ACCELERATE)
        return SEVERAL.format(accelerate=versions["accelerate"])
    if job.kind == kinds.TORCH.name:
        return SCRIPT.format(accelerate=ACCELERATOR if arguments.accelerate_calls_ipex(versions) else "")
    if not job.of_kind().takes_trainer_arguments:
        return ""
    own = {name.replace("-", "_"): value for name, value in job.args.items()}
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
        is_unsure = caller == arguments.TRAINER and several and "bf16" in (precision, _own_precision(job))
        return f"IPEX: ipex.optimize by {caller}." + (UNSURE if is_unsure else "")
    pins = [f"{name} {versions[name]}" for name in ("torch", "transformers", "accelerate") if name in versions]
    return NOBODY.format(versions=", ".join(pins))


def _is_off(value: object) -> bool:
    """Return whether transformers' HfArgumentParser reads a value of a switch as false."""
    return str(value).lower() in FALSE
