# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contradictions within a job each of whose fields is sound."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, inference_field, kinds, provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import PROGRAMS, SERVER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import RUN_ONLY, TAKEN
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import instances

# Arguments of transformers' scripts that name a model or dataset, and the field that provides such.
PROVIDED = {
    "model_name_or_path": "models",
    "config_name": "models",
    "tokenizer_name": "models",
    "dataset_name": "data",
}
GLUE = "nyu-mll/glue"
GLUE_SCRIPT = Path("transformers/examples/pytorch/text-classification/run_glue.py")
# Tasks whose first two columns are not their sentences (sentence, idx), or whose splits have other names.
NEED_TASK_NAME = ("cola", "mnli", "sst2")


def of_job(job: Job) -> list[str]:
    """Return which fields of a job cannot be true together, as messages."""
    errors = [] if job.project else _same_names([job.script, *([job.prepare.script] if job.prepare else [])])
    if job.request and not job.script.is_relative_to(PROGRAMS):
        errors.append("request: is for programs of the collection: pass args to a script of your own")
    if (job.launcher == instances.LAUNCHER.name) != (job.script == SERVER):
        errors.append(f"launcher: {job.launcher}: {instances.LAUNCHER.name} is for playbooks/serve.yml: leave it out")
    if job.inference:
        errors += inference_field.contradictions(job.inference, list(job.models), list(job.data))
    trains = job.of_kind().takes_trainer_arguments
    # HfArgumentParser takes its arguments with dashes, too.
    args = job.named_args() if trains else dict(job.args)
    if trains and os.path.normpath(str(args.get("output_dir", "output"))) != "output":
        errors.append(
            f"args: output_dir: {args['output_dir']} is not where checkpoints and results are looked for: leave it out"
        )
    if job.precision in RUN_ONLY and job.kind != kinds.RANKS.name:
        errors.append(f"precision: {job.precision}: nothing trains in it: set bf16, fp32 or auto")
    if job.priority and not job.wait:
        errors.append("priority: is for jobs that wait: set wait: true, or leave it out")
    errors += _of_global_batch(job, args) if job.global_batch else []
    for name in ("save_strategy", "save_steps", "save_total_limit"):
        if job.checkpoints and name in args:
            errors.append(f"checkpoints: and the argument {name} say the same: leave one of them out")
    goes_on = [name for name in ("checkpoints", "restarts", "min_hosts", "replace") if job.sets(name)]
    if trains and goes_on and str(args.get("save_only_model", False)).lower() in ("true", "1", "yes", "on", "t", "y"):
        errors.append(
            f"args: save_only_model: leaves optimizer and learning rate schedule out of checkpoints, and "
            f"{' and '.join(f'{name}:' for name in goes_on)} would go on from these: leave save_only_model out"
        )
    if job.sharding != "none":
        errors += [
            f"args: {name}: and sharding: {job.sharding} both decide how the model is sharded: leave one of them out"
            for name in ("fsdp", "fsdp_config", "deepspeed")
            if args.get(name)
        ]
        if args.get("use_peft"):
            errors.append(
                f"args: use_peft: LoRA leaves the model as it is, and sharding: {job.sharding} is for training all of "
                "it: leave one of them out"
            )
        if job.gradient_compression != "none":
            errors.append(
                f"gradient_compression: is for DistributedDataParallel, and sharding: {job.sharding} does without it: "
                "leave one of them out"
            )
    errors += [
        f"env: {name} is read by the launcher, not by ranks: write it under env_launcher"
        for name in job.env
        if name.startswith("I_MPI_HYDRA_")
    ]
    errors += [
        f"env_from: {name} has a value under env, too: leave one of them out"
        for name in job.env_from
        if name in {**job.env, **job.secrets}
    ]
    is_offline = job.env.get("HF_HUB_OFFLINE", "1") not in ("0", "false", "FALSE", "no", "off")
    if trains and is_offline:
        errors += [message for name in PROVIDED if (message := _not_provided(job, name))]
    if job.script == GLUE_SCRIPT:
        errors += _tasks_of_glue(job, args, is_offline)
    return errors


def _of_global_batch(job: Job, args: Mapping[str, Any]) -> list[str]:
    """Return messages about arguments that contradict global_batch, and about ranks that do not divide it."""
    errors = [
        f"args: {name}: would change the batch that follows from global_batch: leave it out "
        f"({batches.PER_DEVICE} is the most that a rank takes at once)"
        for name in (batches.ACCUMULATION, "per_gpu_train_batch_size", "auto_find_batch_size")
        if args.get(name)
    ]
    at_once = args.get(batches.PER_DEVICE, batches.AT_ONCE)
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        errors.append(f"args: {batches.PER_DEVICE}: {at_once!r} is not a whole number of at least 1")
    hosts = len(job.hosts) if isinstance(job.hosts, list) else job.hosts
    if hosts and isinstance(job.ranks_per_node, int):
        errors += filter(None, [batches.refusal(job.global_batch, [job.ranks_per_node] * hosts)])
    return errors


def _tasks_of_glue(job: Job, args: Mapping[str, Any], is_offline: bool) -> list[str]:
    """Return messages about a task of GLUE that run_glue.py cannot load, or of which it takes other columns.

    Without task_name, it takes the first two columns that are not the label, and a split named validation.
    """
    task, config = args.get("task_name"), args.get("dataset_config_name")
    sources = {f"{provided.DIRECTORIES['data']}/{name}": source.hub for name, source in job.data.items()}
    if task and is_offline and GLUE not in sources.values():
        return [
            f"args: task_name: {task} is a configuration of {GLUE}, and ranks work offline: provide it with "
            f"data: {{glue: {{hub: {GLUE}}}}} and metrics: {{glue: {{hub: evaluate-metric/glue}}}}"
        ]
    if not task and config in NEED_TASK_NAME and sources.get(str(args.get("dataset_name"))) == GLUE:
        return [
            f"args: dataset_config_name: {config}: run_glue.py takes columns and splits of this task only by its name: "
            f"set task_name: {config}, and provide metrics: {{glue: {{hub: evaluate-metric/glue}}}}"
        ]
    return []


def _not_provided(job: Job, name: str) -> str:
    """Return the message that an argument names a model or dataset that ranks, which are offline, will not find."""
    value = job.args.get(name)
    if not isinstance(value, str) or value.startswith(("/", ".", "data/", "output/", "~")):
        return ""
    kind = PROVIDED[name]
    if job.project and (job.project / value).exists():
        return ""
    # What datasets are called is up to a script of one's own.
    if kind == "data" and job.script.is_absolute():
        return ""
    directory = provided.DIRECTORIES[kind]
    entries = job.models if kind == "models" else job.data
    if any(f"{value}/".startswith(f"{directory}/{entry}/") for entry in entries):
        return ""
    if kind == "data" and any(source.hub == value for source in job.data.values()):
        return ""
    if value.startswith(f"{directory}/"):
        there = f"has only {', '.join(entries)}" if entries else "is empty"
        return f"args: {name}: {value} has no matching entry: {kind} {there}"
    example = value.rpartition("/")[2]
    return (
        f"args: {name}: {value} would be looked for on the hub, and ranks work offline: provide it with "
        f"{kind}: {{{example.lower()}: {{hub: {value}}}}} and name it {directory}/{example.lower()}"
    )


def _same_names(scripts: list[Path]) -> list[str]:
    """Return which scripts would overwrite each other, or the launcher's own, in the job directory."""
    scripts = [script for script in scripts if script.is_absolute()]
    errors = [
        f"{script}: the job directory has a {script.name} of its own, rename it"
        for script in scripts
        if script.name in TAKEN
    ]
    if len(set(scripts)) > len({script.name for script in scripts}):
        errors.append(
            f"{' and '.join(map(str, scripts))} would have the same name in the job directory: rename one of them"
        )
    return errors
