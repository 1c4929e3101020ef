# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The field `inference` of a job file: what an inference benchmark measures, each value checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models

# What runs on the hosts, in the role's files: the project of every job of kind inference, and its script.
PROGRAMS = Path(__file__).resolve().parents[3] / "roles/measure/files/inference"
SCRIPT = "run_benchmark.py"

PRECISIONS = ("fp32", "bf16", "int8")
ENGINES = ("eager", "compile", "trace", "ipex")
INT8 = ("dynamic", "static")
# An instance for each NUMA node, and one for each core.
AUTO, CORES = "auto", "cores"
# A model that a job of this cluster has trained: job:NAME.
OF_JOB = "job:"
_JOB = re.compile(r"job:[a-z0-9][a-z0-9._-]{0,50}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Inference:
    """What is measured: every combination of these lists that a model has a use for.

    models: names in the job's `models`, of known_models, or job:NAME. tasks: of models whose task is not known
    otherwise. channels_last: whether images are laid out so; None tries both. instances_per_node: numbers, "auto" (one
    for each NUMA node) and "cores" (one for each core). rates: requests per second and instance of the open loop.
    seconds: of the closed loop, after `warmup` requests. p99_ms: limit of the recommended setting. budget: minutes.
    agreement: the least share of predictions equal to fp32's that a recommended setting has. evaluation: a CSV file of
    the job's `data`, by model. emulation: whether precisions run that the CPU only emulates.
    """

    models: list[str]
    tasks: dict[str, str] = field(default_factory=dict)
    precisions: list[str] = field(default_factory=lambda: list(PRECISIONS))
    engines: list[str] = field(default_factory=lambda: ["eager"])
    int8: list[str] = field(default_factory=lambda: ["dynamic"])
    channels_last: bool | None = None
    batch_sizes: list[int] = field(default_factory=lambda: [1, 16])
    sequence_lengths: list[int] = field(default_factory=lambda: [128])
    new_tokens: int = 16
    instances_per_node: list[int | str] = field(default_factory=lambda: [1, AUTO, CORES])
    threads_per_instance: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seconds: float = 3.0
    warmup: int = 3
    p99_ms: float | None = None
    budget: float = 30.0
    agreement: float = 0.98
    emulation: bool = False
    evaluation: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{value!r} is not a list with at least one entry")
    if len({str(each) for each in value}) != len(value):
        raise ValueError(f"{value!r} has an entry twice")
    return value


def _each(check: Callable[[object], Any]) -> Callable[[object], list[Any]]:
    return lambda value: [check(each) for each in _list(value)]


def _chosen(choices: Sequence[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return check


def _whole(value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1_000_000:
        raise ValueError(f"{value!r} is not a whole number of at least {least}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{value!r} is not a number above 0")
    return float(value)


def _instances(value: object) -> int | str:
    if value in (AUTO, CORES):
        return str(value)
    try:
        return _whole(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is neither a whole number of at least 1, nor {AUTO} (one for each NUMA node), nor {CORES} (one "
            "for each core)"
        ) from None


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _model(value: object) -> str:
    if not isinstance(value, str) or not (_NAME.fullmatch(value) or _JOB.fullmatch(value)):
        raise ValueError(f"{value!r} is neither the name of a model nor job:NAME")
    return value


def _texts(check: Callable[[object], str]) -> Callable[[object], dict[str, str]]:
    def mapping(value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not a mapping with models as keys")
        found = {}
        for name, each in value.items():
            try:
                found[str(name)] = check(each)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return found

    return mapping


def _csv(value: object) -> str:
    path = Path(value) if isinstance(value, str) else Path()
    if path.suffix != ".csv" or len(path.parts) < 2 or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} is not NAME/FILE.csv, a file of an entry of `data`")
    return str(path)


def _agreement(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{value!r} is not a share from 0 to 1")
    return float(value)


CHECKS: dict[str, Callable[[object], Any]] = {
    "models": _each(_model),
    "tasks": _texts(_chosen(known_models.TASKS)),
    "precisions": _each(_chosen(PRECISIONS)),
    "engines": _each(_chosen(ENGINES)),
    "int8": _each(_chosen(INT8)),
    "channels_last": lambda value: None if value == AUTO else _switch(value),
    "batch_sizes": _each(_whole),
    "sequence_lengths": _each(lambda value: _whole(value, 2)),
    "new_tokens": _whole,
    "instances_per_node": _each(_instances),
    "threads_per_instance": _each(_whole),
    "rates": lambda value: _each(_number)(value) if value != [] else [],
    "seconds": _number,
    "warmup": lambda value: _whole(value, 0),
    "p99_ms": lambda value: None if value is None else _number(value),
    "budget": _number,
    "agreement": _agreement,
    "emulation": _switch,
    "evaluation": _texts(_csv),
}


def read(value: object, _directory: Path | None = None) -> Inference:
    """Return the field's content. Raises ValueError with everything that is wrong, a line each."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping such as {{models: [distilbert-small]}}")
    errors = [
        f"{name}: unknown field; known fields: {', '.join(CHECKS)}" for name in map(str, value) if name not in CHECKS
    ]
    if "models" not in value:
        errors.append("models: is missing")
    found: dict[str, Any] = {}
    for name, check in CHECKS.items():
        if name in value:
            try:
                found[name] = check(value[name])
            except ValueError as error:
                errors.append(f"{name}: {error}")
    if not errors:
        if "threads_per_instance" in found and "instances_per_node" not in found:
            found["instances_per_node"] = []
        errors = [
            f"{name}: {model} is not in models"
            for name in ("tasks", "evaluation")
            for model in found.get(name, {})
            if model not in found["models"]
        ]
    if errors:
        raise ValueError("; ".join(errors))
    return Inference(**found)


def from_json(content: dict[str, Any] | None) -> Inference | None:
    """Return the field that Inference.to_json wrote."""
    known = {each.name for each in fields(Inference)}
    return Inference(**{name: value for name, value in content.items() if name in known}) if content else None


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
