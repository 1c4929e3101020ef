# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One job made from another: a verification, the same job on other hosts, with other cores or for a few steps.

A derived job is an ordinary job: it is planned, launched and watched as any other, in a directory of its own. Its name
has DERIVED in it, which no job file can name, so that its directory is never that of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds, on_end, optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import DEFAULTS, Job, Measure
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import DERIVED, NAME, PROFILE
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS

VERIFICATION = f"{DERIVED}verify"
"""Name of the job that verifies a plan."""

VERIFY_RANKS = Path("runtime/amx_cluster/verify_ranks.py")

LONGEST = 63

LEFT_OUT = (
    "do_eval",
    "do_predict",
    "eval_delay",
    "eval_on_start",
    "eval_steps",
    "eval_strategy",
    "evaluation_strategy",
    "load_best_model_at_end",
    "push_to_hub",
    "resume_from_checkpoint",
    "save_only_model",
    "save_steps",
    "save_total_limit",
)
"""Arguments of the Trainer, under the names of all versions, that evaluate and save: trials train only."""

SHORT = {"do_train": True, "save_strategy": "no"}
"""Arguments of the Trainer that have a script train and do nothing besides, the same in every version."""


def derived(job: Job, suffix: str, **changes: Any) -> Job:
    """Return `job` under the name NAME+SUFFIX with these fields changed; a mapping is merged with the job's own.

    What is None in such a mapping is left out. Nothing is expected of its results but that it ends, and nobody receives
    a message: `expect` and `on_end` are empty unless given. Raises ValueError when the name is none for a derived job.
    """
    name = derived_name(job.name, suffix)
    merged: dict[str, Any] = {
        field: _merged(getattr(job, field), value) if isinstance(value, dict) else value
        for field, value in changes.items()
    }
    secrets = {variable: value for variable, value in job.secrets.items() if variable != on_end.SECRET}
    everything: dict[str, Any] = {"expect": {}, "on_end": None, "secrets": secrets, **merged, "name": name}
    return replace(job, **everything)


def derived_name(name: str, suffix: str) -> str:
    """Return the name of a job that is derived from the job `name`, or from none. Raises ValueError."""
    made = f"{name}{DERIVED}{suffix}"
    if not NAME.fullmatch(f"{name}{suffix}") or len(made) > LONGEST:
        raise ValueError(
            f"{made!r} is not a name of a derived job: at most {LONGEST} lower-case letters, digits, '.', '_' and '-', "
            f"with one {DERIVED!r} among them"
        )
    return made


def _merged(own: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**own, **other}.items() if value is not None}


def trial(
    job: Job,
    suffix: str,
    steps: int,
    warmup_steps: int = 0,
    measure: bool = True,
    fields: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
) -> Job:
    """Return the job for so many steps after the warm-up, with the fields of a job file that are to change.

    A script of transformers' Trainer makes these steps, and neither evaluates nor saves. A script of another kind runs
    as it does in the job: its arguments are its own. measure: whether the steps are measured, where that can be had.
    sources: the fields `models` and `data` where they are to be replaced.
    A trial is not restarted, waits for no other job, and nothing is expected of its results. Raises ValueError for a
    field that there is not or that a trial decides itself, a wrong value, and a name that is none for a derived job.
    """
    changes = dict(fields or {})
    tried = [name for name, row in FIELDS.items() if row.tried]
    unknown = sorted(set(changes).difference(tried))
    if unknown:
        raise ValueError(f"{unknown[0]} is no field that a trial can change: {', '.join(tried)} are")
    place = Place(job.file.parent)
    parsed = {name: FIELDS[name].form.check(value, place) for name, value in changes.items() if name != "args"}
    for name, value in (sources or {}).items():
        parsed[name] = {**dict.fromkeys(getattr(job, name)), **FIELDS[name].form.check(value, place)}
    args = changes.get("args", {})
    if job.of_kind().takes_trainer_arguments:
        args = {**dict.fromkeys(LEFT_OUT), **SHORT, "max_steps": warmup_steps + steps, **args}
    settled: dict[str, Any] = {"checkpoints": None, "restarts": 0, "min_hosts": None, "wait": False, "priority": 0}
    measured = Measure(warmup_steps) if measure else None
    return derived(job, suffix, **settled, **parsed, measure=measured, args=args)


def profiled(job: Job, value: object) -> Job:
    """Return the job with so many of its steps profiled, as `measure: {profile: ...}` in its file would have it.

    value: as -e profile=... has it: true, a number of steps, or false, which leaves the job as it is. Raises
    ValueError.
    """
    word = str(value).strip().lower()
    words = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off", ""), False)}
    wanted = words.get(word, int(word) if word.isdecimal() else value)
    try:
        steps = PROFILE.check(wanted, Place(job.file.parent))
    except ValueError as error:
        raise ValueError(f"profile: {error}") from None
    return replace(job, measure=replace(job.measure or Measure(), profile=steps)) if steps else job


def verification(job: Job, script: Path = VERIFY_RANKS) -> Job:
    """Return the job that verifies the plan of `job`: its settings and environment, with `script` for its script.

    What belongs to the job's own script (arguments, data, models, requirements, secrets) is left out.
    """
    of_script = {name: DEFAULTS[name] for name, row in FIELDS.items() if row.of_script}
    settled: dict[str, Any] = {"name": VERIFICATION, "kind": kinds.VERIFICATION.name, "optimize": optimizing.NONE}
    return replace(job, **of_script, **settled, script=script, secrets={})


def measurement(job: Job, name: str, kind: str, script: Path, args: dict[str, Any]) -> Job:
    """Return the job that measures with the plan of `job`: its settings and environment, with another script.

    name, kind: the measurement's own, the name without DERIVED. What belongs to the job's own script is left out, as in
    a verification.
    """
    return replace(
        verification(job, script),
        name=derived_name("", name),
        kind=kind,
        args=dict(args),
        restarts=0,
        min_hosts=None,
        stall_seconds=0,
        watch=replace(job.watch, gradients=False),
    )
