# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch predictions: what is requested, as a job of independent ranks, and what tells two requests apart.

A *setting* says how a model is run; playbooks/infer.yml writes
the fastest one into recommended-MODEL.yml.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import model_files, sentence_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds, known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    ENGINES,
    HEAD,
    INT8,
    INT8_INPUTS,
    PRECISIONS,
    PREDICTION,
    Prediction,
    Serving,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import NAME

SUFFIX = "predict"
FILE = "prediction.json"
# The names of the model and of the data in the job directory.
MODEL, INPUT = "model", "input"
# Those whose rows are text.
TASKS = tuple(task for task in known_models.TASKS if task != known_models.IMAGES)
# How a model is run where no setting says it.
DEFAULTS: dict[str, Any] = {
    "precision": "fp32",
    "autocast": False,
    "int8": None,
    "engine": "eager",
    "channels_last": False,
    "batch_size": 16,
    "sequence_length": None,
    "new_tokens": None,
    "chat_template": None,
    "emulation": False,
}
# What a setting has besides: of which model it is, and how cores are divided.
OF_MODEL = ("model", "source", "task")
OF_CORES = ("instances_per_node", "threads_per_instance")
CHOICES = {
    "precision": PRECISIONS,
    "autocast": (True, False),
    "int8": (*INT8_INPUTS, None),
    "engine": ENGINES,
    "chat_template": (True, False, None),
}
SEQUENCE_LENGTH, NEW_TOKENS = 128, 64
# Tokens of a text that has an embedding or a score, at most, where no setting says it.
LONGEST_SENTENCE = 512
# Arguments of training scripts that name a column, in their order, and the longest sequence.
COLUMN_ARGUMENTS = (
    ("text_column_names",),
    ("text_column_name",),
    ("text_column",),
    ("sentence1_key", "sentence2_key"),
    ("question_column", "context_column"),
)
LENGTH_ARGUMENTS = ("max_seq_length", "max_length", "block_size")
# Chunks that the data are divided into at least, where they have so many batches, and rows of a chunk at most.
CHUNKS, MOST_ROWS = 256, 2000
RESTARTS = 5


def read_setting(setting: object, where: str) -> dict[str, Any]:
    """Return a checked setting, as written. where: what to call it in messages. Raises ValueError."""
    if not isinstance(setting, dict):
        raise ValueError(f"{where} is no mapping such as {{precision: bf16, batch_size: 16}}")
    known = (*DEFAULTS, *OF_MODEL, *OF_CORES)
    unknown = [str(name) for name in setting if name not in known]
    if unknown:
        raise ValueError(f"{where}: {unknown[0]} is no setting: {', '.join(known)} are")
    for name, choices in CHOICES.items():
        if name in setting and setting[name] not in choices:
            raise ValueError(f"{where}: {name}: {setting[name]!r} is not one of {', '.join(map(str, choices))}")
    for name in ("batch_size", "sequence_length", "new_tokens", *OF_CORES):
        value = setting.get(name)
        if value is None or (value == "auto" and name == "instances_per_node"):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{where}: {name}: {value!r} is not a whole number of at least 1")
    return dict(setting)


def other_model(setting: Mapping[str, Any], job: str, directory: str) -> str:
    """Return of which other model a setting is; an empty string when it is of this one, or of none in particular.

    job: the job that trained the model; empty for a model in `directory`.
    """
    source, name = setting.get("source") or {}, setting.get("model")
    given = str(source.get("directory", "")) if isinstance(source, Mapping) else str(source)
    if job:
        right = [f"job:{job}", job]
        if name in right or given in right or given.rstrip("/").endswith((f"/jobs/{job}/output", f"/jobs/{job}")):
            return ""
    elif (given and Path(given).expanduser() == Path(directory.removeprefix(HEAD))) or (
        name and not given and Path(directory).name == name
    ):
        return ""
    return str(name or given or "")


def task_of(config: Mapping[str, Any], wanted: str, label: str) -> str:
    """Return the task of a model by its config.json. wanted: the task requested, if any. Raises ValueError."""
    trained = next(iter(config.get("architectures") or []), "")
    tasks = known_models.tasks_of(config)
    task = wanted if wanted in tasks else tasks[0]
    if task not in TASKS:
        raise ValueError(
            f"{label} is a {trained or 'model without architectures in its config.json'}, and predictions are made by "
            f"models for {', '.join(TASKS)}"
        )
    if wanted and wanted != task:
        raise ValueError(f"{label} is a {trained}, a model for {task}, and not for {wanted}")
    return task


def columns_of(
    task: str,
    given: Sequence[str],
    args: Mapping[str, Any],
    trained_on: Sequence[str],
    there: Sequence[str],
    where: str,
) -> list[str]:
    """Return the columns of the data that the model reads.

    given: by the user, who is right. args, trained_on: the training job's arguments, and the columns of its training
    data as far as they are known. there: the columns of the data. Raises ValueError where the data do not
    have them, or have columns of the names that are added.
    """
    wanted = (
        list(given)
        or columns_of_arguments(args)
        or known_models.columns_in(task, trained_on)
        or known_models.columns_in(task, there)
    )
    has = f"it has {', '.join(there) or 'none'}"
    if not wanted:
        choices = " or ".join(" and ".join(columns) for columns in known_models.COLUMNS[task])
        raise ValueError(f"{where} has no columns for {task}, {choices}; {has}: name them with -e columns=A,B")
    missing = [name for name in wanted if name not in there]
    if missing:
        reason = "" if given else ", which the model was trained on"
        name_them = "correct -e columns" if given else "name the columns to be read with -e columns=A,B"
        raise ValueError(f"{where} has no column {', '.join(missing)}{reason}; {has}: {name_them}")
    least = 2 if task in (known_models.ANSWERING, known_models.RANKING) else 1
    most = 1 if task in (known_models.GENERATION, known_models.EMBEDDING) else 2
    if not least <= len(wanted) <= most:
        raise ValueError(f"{task} reads {least if least == most else f'{least} or {most}'} columns, not {len(wanted)}")
    taken = [name for name in known_models.PREDICTED[task] if name in there]
    if taken:
        raise ValueError(f"{where} has a column {taken[0]} already, which the prediction adds: rename it")
    return wanted


def columns_of_arguments(args: Mapping[str, Any]) -> list[str]:
    """Return the columns that the arguments of a training script name."""
    for names in COLUMN_ARGUMENTS:
        values = [args[name] for name in names if args.get(name)]
        if values:
            flat = [part for value in values for part in (value if isinstance(value, list) else str(value).split(","))]
            return [str(part).strip() for part in flat]
    return []


def cell(
    setting: Mapping[str, Any], task: str, name: str, args: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how the model is run, as models.load and engines.prepare take it; `path` is in the job directory.

    config: the model's config.json. Raises ValueError for another precision than that of int8 weights, and for more
    tokens than the model has positions.
    """
    chosen = {key: setting.get(key, value) for key, value in DEFAULTS.items()}
    if config.get(INT8):
        saved = {"precision": "int8", "int8": config[INT8]["inputs"]}
        other = [f"{key} {setting[key]}" for key, value in saved.items() if setting.get(key) not in (None, value)]
        if other:
            raise ValueError(f"{name} has weights of {saved['precision']} {saved['int8']}, and the setting {other[0]}")
        chosen.update(saved)
    if chosen["channels_last"] in ("auto", None):
        chosen["channels_last"] = False
    generates = task == known_models.GENERATION
    if generates:
        chosen.update(new_tokens=chosen["new_tokens"] or NEW_TOKENS, stop_at_end=True)
    longest, length = model_files.positions(config), chosen["sequence_length"]
    # Room for what is generated; of a longer prompt the end counts.
    room = longest - chosen["new_tokens"] if generates and longest else longest
    if longest and ((length or 0) > longest or (room is not None and room < 1)):
        excess = f"sequence_length {length}" if (length or 0) > longest else f"new_tokens {chosen['new_tokens']}"
        raise ValueError(f"{name} has {longest} positions (config.json), and the setting {excess}: choose fewer")
    if length is None:
        usual = SEQUENCE_LENGTH
        if task in known_models.OF_SENTENCES:
            usual = min((config.get(sentence_models.ENTRY) or {}).get("longest") or LONGEST_SENTENCE, LONGEST_SENTENCE)
        chosen["sequence_length"] = min(trained_length(args) or usual, room or sys.maxsize)
    return {"id": SUFFIX, "model": name, "task": task, "path": f"models/{MODEL}", **chosen}


def trained_length(args: Mapping[str, Any]) -> int:
    """Return the longest sequence by the arguments of a training script; 0 where they do not say it."""
    given = [str(args.get(key, "")) for key in LENGTH_ARGUMENTS]
    return next((int(length) for length in given if re.fullmatch("0*[1-9][0-9]*", length)), 0)


def chunk_rows(count: int, batch_size: int) -> int:
    """Return how many rows a chunk has, for about so many rows: whole batches, and work for all instances."""
    batches = max(1, min(MOST_ROWS, -(-count // CHUNKS)) // batch_size)
    return batches * batch_size


def compared(
    data: Mapping[str, Any], model: Mapping[str, Any], columns: Sequence[str], how: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what tells two requests apart. data, model: each with name and sha256. how: the cell."""
    settled = {key: how[key] for key in ("task", *DEFAULTS)}
    return {
        "data": {"name": data["name"], "sha256": data["sha256"]},
        "model": {"name": model["name"], "sha256": model["sha256"]},
        "columns": list(columns),
        **settled,
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what differs between two requests, as compared() returns them, a line each; only what both have counts."""
    lines = []
    for key, old in before.items():
        new = after.get(key, old)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if new and old["sha256"] != new["sha256"]:
                names = f"{old['name']} ({_short(old)}), now {new['name']} ({_short(new)})"
                lines.append(f"the {key} {'differ' if key == 'data' else 'differs'}: {names}")
        elif old != new:
            texts = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in (old, new)]
            lines.append(f"{key} {'differ' if key == 'columns' else 'differs'}: {texts[0]}, now {texts[1]}")
    return lines


def _short(file: Mapping[str, Any]) -> str:
    return f"SHA-256 {str(file.get('sha256'))[:12]}"


def digest(request: Mapping[str, Any], token: str) -> str:
    """Return what chunks of a request are marked with. token: tells one prediction from a later one of the same."""
    # What the data and the model are called does not count.
    compared = {key: value["sha256"] if isinstance(value, Mapping) else value for key, value in request.items()}
    return hashlib.sha256(json.dumps([compared, token], sort_keys=True).encode()).hexdigest()[:32]


def job_name(name: str, suffix: str = SUFFIX) -> str:
    """Return the name of the job that asks the model of another, or of a directory. Raises ValueError.

    suffix: of what it does, which the option for the name begins with.
    """
    made = f"{name}-{suffix}"
    if not NAME.fullmatch(made):
        raise ValueError(
            f"{made!r} is not a name of a job (lower-case letters, digits, '.', '_' and '-', at most 63): choose one "
            f"with -e {suffix}_name=NAME"
        )
    return made


def job_fields(
    name: str,
    request: Prediction,
    model: Mapping[str, Any],
    data: Mapping[str, Any],
    setting: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of the job file of a prediction; the arguments are those of fields_of_instances, and the data.

    data: a source of a job file. It goes on without a host that is lost.
    """
    description = f"Predict the rows of {Path(request.data).name} with {request.cell['model']}"
    fields = fields_of_instances(name, description, PREDICTION, request, model, setting)
    return {
        **fields,
        "data": {INPUT: dict(data)},
        "min_hosts": 1,
        "restarts": RESTARTS,
        "watch": {"gradients": False, "group": False},
    }


def fields_of_instances(
    name: str,
    description: str,
    script: Path,
    request: Prediction | Serving,
    model: Mapping[str, Any],
    setting: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of a job file whose independent ranks each have the model.

    model: a source of a job file.
    """
    return {
        "name": name,
        "description": description,
        "script": str(script),
        "kind": kinds.RANKS.name,
        "request": request.to_json(),
        "models": {MODEL: dict(model)},
        "precision": request.cell["precision"],
        "ranks_per_node": setting.get("instances_per_node") or "auto",
        "comm_cores": 0,
        "backend": "gloo",  # ranks that form no group need no other: every torch has it
    }
