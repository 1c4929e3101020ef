# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The field `inference` of a job file: what an inference benchmark measures, each value checked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    NOTHING,
    SWITCH,
    Form,
    Place,
    any_of,
    field,
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

PRECISIONS = ("fp32", "bf16", "fp16", "int8")
ENGINES = ("eager", "compile", "trace", "ipex")
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


@dataclass(frozen=True)
class Inference:
    """What is measured: every combination of these lists that a model has a use for.

    models: names in the job's `models`, of known_models, or job:NAME. tasks: of models whose task is not known
    otherwise. autocast: whether weights become bf16 or fp16 in each call; channels_last: whether images are laid out
    so; None tries both. instances_per_node: numbers, "auto" (one for each NUMA node) and "cores" (one for each core).
    rates: requests per second and instance of the open loop. seconds: of the closed loop, after `warmup` requests.
    p99_ms: limit of the recommended setting. budget: minutes.
    agreement: the least share of predictions equal to fp32's that a recommended setting has. evaluation: a CSV file of
    the job's `data`, by model. emulation: whether precisions run that the CPU only emulates.
    """

    models: list[str] = field(_several(_MODEL))
    tasks: dict[str, str] = field(mapping(one_of(*known_models.TASKS)), dict)
    precisions: list[str] = field(_several(one_of(*PRECISIONS)), lambda: ["fp32", "bf16", "int8"])
    engines: list[str] = field(_several(one_of(*ENGINES)), lambda: ["eager"])
    int8: list[str] = field(_several(one_of("dynamic", "static")), lambda: ["dynamic"])
    autocast: bool | None = field(any_of(one_of(AUTO).then(lambda _auto: None), SWITCH), False)
    channels_last: bool | None = field(any_of(one_of(AUTO).then(lambda _auto: None), SWITCH), None)
    batch_sizes: list[int] = field(_several(_COUNT), lambda: [1, 16])
    sequence_lengths: list[int] = field(_several(whole(2, MOST)), lambda: [128])
    new_tokens: int = field(_COUNT, 16)
    instances_per_node: list[int | str] = field(
        _several(
            any_of(
                one_of(AUTO, CORES),
                _COUNT,
                message=f"is neither a whole number of at least 1, nor {AUTO} (one for each NUMA node), nor {CORES} "
                "(one for each core)",
            )
        ),
        lambda: [1, AUTO, CORES],
    )
    threads_per_instance: list[int] = field(_several(_COUNT), list)
    rates: list[float] = field(_several(_POSITIVE, least=0), list)
    seconds: float = field(_POSITIVE, 3.0)
    warmup: int = field(whole(0, MOST), 3)
    p99_ms: float | None = field(any_of(NOTHING, _POSITIVE), None)
    budget: float = field(_POSITIVE, 30.0)
    agreement: float = field(_SHARE, 0.98)
    emulation: bool = field(SWITCH, False)
    evaluation: dict[str, str] = field(mapping(_CSV), dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


_FIELDS = record(Inference, "{models: [distilbert-small]}")


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


FORM = Form(_FIELDS.schema, "a mapping", _read, _FIELDS.load)


def contradictions(wanted: Inference, models: Sequence[str], data: Sequence[str]) -> list[str]:
    """Say what of the request has no counterpart in its job: models and data, the names of these fields' entries."""
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
