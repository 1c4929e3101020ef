# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a run, rendered here alone: at the first start and at every restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import arguments, checkpoints, sharding


def run_files(plan: Plan, run: Run, stack: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return {name: content} of the files that say what a run does: job.json, plan.json and the launcher's own.

    stack: an entry of the catalogue. extra: arguments of the script that win over
    the job's, such as the checkpoint to resume from; job.json stays as the job file has it.
    """
    return {
        "job.json": json.dumps(run.to_json(), indent=1) + "\n",
        "plan.json": json.dumps(plan.to_json(), indent=1) + "\n",
        **LAUNCHERS[run.job.launcher].files(plan, script_words(plan, run, stack, extra)),
    }


def script_words(plan: Plan, run: Run, stack: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> list[str]:
    """Return what names a script to Python in the job directory, and its arguments: its own, and what the launch adds.

    What is added, and under which name, is up to the stack's version of transformers (see arguments.arguments;
    docs/stacks.md lists them). A kind of job that takes no Trainer arguments gets its own only.
    """
    own = {**batches.arguments(run.job, plan.world_size), **(extra or {})}
    if run.job.of_kind().takes_trainer_arguments:
        settings = run.job.checkpoints
        kept = checkpoints({"steps": settings.steps, "keep": settings.keep} if settings else None)
        added = plan.world_size, plan.precision, plan.backend
        shards = sharding(run.job.sharding, stack.get("packages", {}).get("transformers", "0"))
        own = arguments(stack["arguments"], {**own, **kept, **shards}, *added)
    script = run.job.script
    is_own = script.is_relative_to(archive.DIRECTORY)
    named = ["-m", archive.module(script)] if is_own else [script_path(run)]
    return [*named, *render_arguments(own)]


def script_path(run: Run, script: Path | None = None) -> str:
    """Return the path of a run's script in the job directory: one's own lies in it, an example as in its repository.

    script: the one that is meant, by default that of the ranks.
    """
    script = script or run.job.script
    if run.job.project:
        return f"{project.DIRECTORY}/{script.relative_to(run.job.project).as_posix()}"
    return script.name if script.is_absolute() else str(script)


def prepare_arguments(job: Job) -> list[str]:
    """Return the words that the script which prepares a job's data gets; none where there is no such script."""
    if job.prepare is None:
        return []
    return render_arguments({**(job.args if job.prepare.job_args else {}), **job.prepare.args})


def render_arguments(args: Mapping[str, Any]) -> list[str]:
    """Return a mapping of arguments as the words that transformers' HfArgumentParser reads.

    true is the bare flag, false is "--flag false" (a switch that is on by default can be turned off), a list is the
    flag followed by its items.
    """
    words = []
    for name, value in args.items():
        words.append(f"--{name}")
        if isinstance(value, bool):
            words += [] if value else ["false"]
        elif isinstance(value, (list, tuple)):
            words += [str(item) for item in value]
        else:
            words.append(str(value))
    return words
