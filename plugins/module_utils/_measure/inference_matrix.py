# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrix of an inference benchmark: its models with their sources and tasks, and its cells."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_field import OF_JOB
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Inference, Job, Source
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import SOURCES
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_document import Cell

# Fields of a cell that an instance receives, beside what it is to measure with.
RECEIVED = (
    *("id", "model", "task", "path", "small", "configured", "precision", "autocast", "int8", "engine"),
    *("channels_last", "batch_size", "sequence_length", "new_tokens", "evaluation"),
)

# The fields of `inference` in a job file that a user can also set with -e.
WITH_OPTIONS = ("budget", "p99_ms", "agreement")


def overridden(override: Any, options: Mapping[str, Any]) -> Any:
    """Return the fields that win over a job file's, with those of `inference` that have options of their own."""
    wins = {name: _number(options[name]) for name in WITH_OPTIONS if options.get(name) is not None}
    if not wins or not isinstance(override, dict):
        return override
    own = override.get("inference")
    return {**override, "inference": {**(own if isinstance(own, dict) else {}), **wins}}


def _number(value: Any) -> Any:
    """Return what -e name=VALUE gives as text as the number that a job file would have; other text as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def request(job: Job) -> Inference:
    """Return the request of a job of kind inference. Raises ValueError for another one."""
    if job.inference is None:
        raise ValueError(
            f"job {job.name} is of kind {job.kind}, and inference is measured of kind inference: write a job file such "
            "as jobs/inference.yml"
        )
    return job.inference


def models(job: Job, prefix: str) -> dict[str, dict[str, Any]]:
    """Return {model: {source, entry, path, small, configured, task, evaluation}} of a job's request.

    source: as a job file has it, with the `entry` of `models` that provides it and its `path` in the job directory;
    None for a variant of a well-known model, which is made on the hosts. task: empty where the model's config.json is
    to tell it. prefix: where the cluster's jobs are.
    """
    wanted = request(job)
    by_name = {}
    for name in wanted.models:
        base, kind = known_models.variant(name)
        known = known_models.MODELS.get(base or name)
        model: dict[str, Any] = dict.fromkeys(("source", "entry", "path", "small", "configured"))
        model["task"] = wanted.tasks.get(name, "")
        if name in job.models:
            model.update(source=of_source(job.models[name]), entry=name)
        elif name.startswith(OF_JOB):
            of = name[len(OF_JOB) :]
            where = str(PurePosixPath(prefix) / "jobs" / of / "output")
            model.update(source={"directory": where, "at": "head"}, entry=f"job-{of}")
        elif base:
            model[kind] = base
        elif known:
            model.update(source={"hub": known.hub}, entry=name)
        if known and name not in job.models:
            model["task"] = model["task"] or known.tasks[0]
        model["path"] = f"models/{model['entry']}" if model["entry"] else None
        given = wanted.evaluation.get(name)
        model["evaluation"] = f"datasets/{given}" if given else None
        by_name[name] = model
    return by_name


def provided(
    model: Mapping[str, Any], name: str, error: str, config: Mapping[str, Any], trained: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is known of a model after it was provided: with its task, `error` and `data`.

    error: why it cannot be had, empty where it can. config: its config.json. trained: the job.json of the job that
    trained it, which has the name of its evaluation data; `data` is where these are, as in a job file, by entry.
    """
    described = {**model, "error": error, "data": {}}
    if error and name.startswith(OF_JOB):
        of = name[len(OF_JOB) :]
        described["error"] = (
            f"the model that job {of} trained is missing: run playbooks/train.yml with its job file ({error})"
        )
    if not error and not described["task"]:
        described["task"] = known_models.tasks_of(config)[0]
        if not described["task"]:
            known = ", ".join(known_models.TASKS)
            reason = (
                f"config.json has architectures {config.get('architectures')}" if config else "it has no config.json"
            )
            described["error"] = (
                f"the task of {name} is not known ({reason}): set tasks: {{{name}: TASK}}, one of {known}"
            )
    file = ((trained.get("job") or {}).get("args") or {}).get("validation_file")
    if (
        not error
        and not described["evaluation"]
        and isinstance(file, str)
        and file.startswith("data/")
        and file.endswith(".csv")
    ):
        directory = str(PurePosixPath(model["source"]["directory"]).parent / "data")
        described["data"] = {model["entry"]: {"directory": directory, "at": "head"}}
        described["evaluation"] = f"datasets/{model['entry']}/{file[len('data/') :]}"
    return described


def of_head(model: Mapping[str, Any], name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a model, see provided(), with the answer of the head when it was provided.

    answer: {error, config, job}, the latter two the content of JSON files in Base64, as the module slurp reads them.
    """
    if not model["entry"]:
        return {**model, "error": ""}
    return provided(model, name, answer.get("error", ""), *map(_decoded, (answer.get("config"), answer.get("job"))))


def _decoded(text: str | None) -> dict[str, Any]:
    try:
        document = json.loads(base64.b64decode(text or ""))
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def of_source(source: Source) -> dict[str, Any]:
    """Return a source as a job file has it."""
    values = asdict(source)
    kind = next(name for name in SOURCES if values[name])
    given = {name: values[name] for name in (kind, *SOURCES[kind]) if values[name]}
    if given.get("at") == "control":
        del given["at"]
    return given


def cells(
    wanted: Inference, about: Mapping[str, Mapping[str, Any]], settings: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of a benchmark's cells before they are measured, those of a model together.

    about: as `models` returns it, with each model's `task`, and `error` where it cannot be had. settings: of the
    instances, as _cores.instances.common returns them; a cell of one that a host refuses is refused with its reason.
    """
    number = 0
    for name, model in about.items():
        for variant in _variants(wanted, str(model["task"])):
            for place, setting in enumerate(settings):
                number += 1
                error = model.get("error") or setting["error"]
                yield {
                    "id": f"c{number:03}",
                    "model": name,
                    **{key: model.get(key) for key in ("path", "small", "configured", "evaluation")},
                    "task": model["task"] or None,
                    **variant,
                    "setting": place,
                    **_of_setting(setting),
                    "instances": setting["total"],
                    "state": "refused" if error else "pending",
                    "reason": error,
                }


def _of_setting(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the instances of a cell and their threads; of a setting that is refused, what was requested."""
    cell = {"instances_per_node": setting["instances"], "threads_per_instance": setting["threads"]}
    if setting["error"]:
        name, _equals, value = setting["name"].partition("=")
        cell[name] = int(value) if value.isdigit() else value
    return cell


def _variants(wanted: Inference, task: str) -> Iterator[dict[str, Any]]:
    """Yield what a model of this task is measured with, beside its instances."""
    images = task == known_models.IMAGES
    lengths: Sequence[int | None] = [None] if images else wanted.sequence_lengths
    layouts = [False, True] if wanted.channels_last is None else [wanted.channels_last]
    precisions: list[tuple[str, bool, str | None]] = []
    for precision in wanted.precisions:
        if precision == "int8":
            precisions += [(precision, False, route) for route in wanted.int8]
        elif precision == "fp32":
            precisions.append((precision, False, None))
        else:
            casts = [False, True] if wanted.autocast is None else [wanted.autocast]
            precisions += [(precision, cast, None) for cast in casts]
    for length, batch, (precision, autocast, int8), engine, layout in itertools.product(
        lengths, wanted.batch_sizes, precisions, wanted.engines, layouts if images else [False]
    ):
        yield {
            "precision": precision,
            "autocast": autocast,
            "int8": int8,
            "engine": engine,
            "channels_last": layout,
            "batch_size": batch,
            "sequence_length": length,
            "new_tokens": wanted.new_tokens if task == known_models.GENERATION else None,
        }


def received(cell: Cell, wanted: Inference, seconds: float) -> dict[str, Any]:
    """Return a cell as the instances receive it; seconds: of the closed loop, and of each open one."""
    return {
        **{name: getattr(cell, name) for name in RECEIVED},
        "rates": wanted.rates,
        "seconds": seconds,
        "warmup": wanted.warmup,
        "emulation": wanted.emulation,
    }
