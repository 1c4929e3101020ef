# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The field `inference` of a job file: what an inference benchmark measures, each value checked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    NOTHING,
    SWITCH,
    Form,
    Place,
    any_of,
    list_of,
    mapping,
    matching,
    number,
    one_of,
    record,
    text,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    ENGINES,
    INT8_INPUTS,
    PRECISIONS,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Inference

# An instance for each NUMA node, and one for each core.
AUTO, CORES = "auto", "cores"
# A model that a job of this cluster has trained: job:NAME.
OF_JOB = "job:"
# More of anything are no request.
MOST = 999_999


def _several(each: Form, least: int = 1) -> Form:
    return list_of(each, "a list with at least one entry", least=least, unique=True)


def _csv(value: str) -> str:
    path = Path(value)
    if path.suffix != ".csv" or len(path.parts) < 2 or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} is not NAME/FILE.csv, a file of an entry of `data`")
    return str(path)


_MODEL = matching(
    re.compile(r"[a-z0-9][a-z0-9._-]{0,62}|job:[a-z0-9][a-z0-9._-]{0,50}"), "the name of a model or job:NAME"
)
_COUNT = whole(1, MOST)
_POSITIVE = number("a number above 0", lambda value: 0 < value < math.inf, exclusiveMinimum=0)
_CSV = replace(text().then(_csv), schema={"type": "string", "pattern": r"^[^/]+/.*\.csv$"})
_SHARE = number("a share from 0 to 1", lambda value: 0 <= value <= 1, minimum=0, maximum=1)


_FIELDS = record(
    Inference,
    "{models: [distilbert-small]}",
    models=_several(_MODEL),
    tasks=mapping(one_of(*known_models.TASKS)),
    precisions=_several(one_of(*PRECISIONS)),
    engines=_several(one_of(*ENGINES)),
    int8=_several(one_of(*INT8_INPUTS)),
    autocast=any_of(one_of(AUTO).then(lambda _auto: None), SWITCH),
    channels_last=any_of(one_of(AUTO).then(lambda _auto: None), SWITCH),
    batch_sizes=_several(_COUNT),
    sequence_lengths=_several(whole(2, MOST)),
    new_tokens=_COUNT,
    instances_per_node=_several(
        any_of(
            one_of(AUTO, CORES),
            _COUNT,
            message=f"is neither a whole number of at least 1, nor {AUTO} (one for each NUMA node), nor {CORES} "
            "(one for each core)",
        )
    ),
    threads_per_instance=_several(_COUNT),
    rates=_several(_POSITIVE, least=0),
    seconds=_POSITIVE,
    warmup=whole(0, MOST),
    p99_ms=any_of(NOTHING, _POSITIVE),
    budget=_POSITIVE,
    agreement=_SHARE,
    emulation=SWITCH,
    evaluation=mapping(_CSV),
)


def _read(value: object, place: Place) -> Inference:
    """Return the field's content. Raises ValueError with everything that is wrong."""
    wanted: Inference = _FIELDS.check(value, place)
    if isinstance(value, dict) and "threads_per_instance" in value and "instances_per_node" not in value:
        wanted = replace(wanted, instances_per_node=[])
    errors = [
        f"{name}: {model} is not in models"
        for name in ("tasks", "evaluation")
        for model in getattr(wanted, name)
        if model not in wanted.models
    ]
    if errors:
        raise ValueError("; ".join(errors))
    return wanted


FORM = Form(_FIELDS.schema, "a mapping", _read)


def contradictions(wanted: Inference, models: Sequence[str], data: Sequence[str]) -> list[str]:
    """Return what of the request has no counterpart in its job: models and data, the names of these fields' entries."""
    errors = []
    for name in wanted.models:
        base, _kind = known_models.variant(name)
        if not (name in models or name in known_models.MODELS or base or name.startswith(OF_JOB)):
            variants = f"one of {', '.join(known_models.MODELS)}, alone or with -small or -configured"
            there = f"; models has {', '.join(models)}" if models else ""
            errors.append(f"inference: models: {name} is neither an entry of models, {variants}, nor job:NAME{there}")
        known = known_models.MODELS.get(base or name) if name not in models else None
        task = wanted.tasks.get(name)
        if known and task and task not in known.tasks:
            errors.append(
                f"inference: tasks: {name} is a model for {' and '.join(known.tasks)}, it does not fit {task}"
            )
    errors += [
        f"inference: evaluation: {name}: {path} names {Path(path).parts[0]}, which is no entry of data"
        for name, path in wanted.evaluation.items()
        if Path(path).parts[0] not in data
    ]
    return errors
