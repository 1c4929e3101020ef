# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check of whether a job fits into the memory of its hosts, on the control node, before anything is copied."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import hub
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, memory_forecast, model_shape, optimizing
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import DERIVED
from ansible_collections.amx.cluster.plugins.module_utils._jobs.memory_forecast import Lora, Settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.model_shape import DECODER_SCRIPT, SCRIPTS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import SHARDING, is_on, number
from ansible_collections.amx.cluster.plugins.module_utils._text import names, size

AS_STORED = ("run_glue.py", "run_qa.py")
"""Those of them that leave the number format to transformers: from 5.0 on, that of the files."""

EVALUATED = ("validation_file", "validation_split_percentage")
"""Arguments of train_decoder.py with which it evaluates."""

TRAIN_IF_SET = ("run_glue.py", "run_qa.py")
"""Scripts that train with do_train only; others do unless do_eval is set alone."""

BY_ITSELF = (
    "auto_find_batch_size",
    "deepspeed",
    "fsdp",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "adapter",
)
"""Arguments of the Trainer and of train_decoder.py with which memory is another."""

OVERRIDE = "job_refuse_memory"
"""Variable of the role job: false makes a warning of a refusal."""

NEAR = 0.9
"""Share of a host's memory above which the plan warns."""

BEYOND = 1.2
"""Share of it above which a job is refused: with tcmalloc, a measured job took a fifth less than forecast."""

_ROOMS = ("process", "parameters", "gradients", "states", "activations", "buffers")


def shape_of(job: Job, cache: Path) -> model_shape.Shape:
    """Return the shape of the model that a job trains. Raises ValueError where it cannot be known before the start.

    cache: cluster_cache, the directory in which the control node keeps what it has downloaded.
    """
    args = arguments(job)
    value = args.get("config_name", args.get("model_name_or_path"))
    if not isinstance(value, str):
        raise ValueError("the job has no argument model_name_or_path")
    path = _directory(job, value, cache) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise ValueError(f"{value} has no config.json on the control node yet") from None
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a JSON object")
    shape = model_shape.of_config({**config, **_overrides(str(args.get("config_overrides", "")))})
    if job.script.name in SCRIPTS and shape.decoder != (job.script.name == DECODER_SCRIPT):
        raise ValueError(f"with {job.script.name}, a model of type {shape.model_type} has another head")
    dtype = config.get("dtype", config.get("torch_dtype"))
    if job.script.name in AS_STORED and dtype not in (None, "float32"):
        raise ValueError(f"{job.script.name} may load its weights in {dtype}")
    return shape


def arguments(job: Job) -> dict[str, Any]:
    """Return a job's arguments, by names with underscores: transformers' parser takes hyphens, too."""
    args = job.named_args()
    # The versions before 5 have it, and prefer it.
    old = args.get("per_gpu_train_batch_size")
    return {**args, "per_device_train_batch_size": old} if old else args


def _directory(job: Job, value: str, cache: Path) -> Path:
    """Return where a model is on the control node, or would be."""
    name, _slash, below = value.removeprefix("models/").partition("/")
    source = job.models.get(name) if value.startswith("models/") else None
    if source is None:
        if job.project and not Path(value).is_absolute():
            return job.project / value
        raise ValueError(f"{value} is not among the job's models")
    if source.at == "head":
        raise ValueError(f"{value} is on the head")
    if source.directory:
        return Path(source.directory) / below
    if source.package:
        return cache / "fetched/packages" / source.package / source.path / below
    request = hub.Request("model", source.hub, source.revision, files=tuple(source.files))
    return hub.kept(request, cache / "fetched/hub") / below


def _overrides(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _equals, value = part.partition("=")
        try:
            settings[name] = json.loads(value.lower())
        except ValueError:
            settings[name] = value
    return settings


def settings_of(job: Job, shape: model_shape.Shape, precision: str) -> Settings:
    """Return what of a job decides about memory, for one rank. Raises ValueError where that cannot be known."""
    args = arguments(job)
    given = next((name for name in BY_ITSELF if is_on(args.get(name))), None)
    if given:
        raise ValueError(f"it sets the argument {given}")
    evaluates = [name for name in ("eval_strategy", "evaluation_strategy") if is_on(args.get(name))]
    trains = job.script.name not in TRAIN_IF_SET and (not is_on(args.get("do_eval")) or bool(evaluates))
    if not (is_on(args.get("do_train")) or trains):
        raise ValueError("it does not train (do_train)")
    # With a switch of its own in the versions before 5.
    optimizer = "adafactor" if is_on(args.get("adafactor")) else str(args.get("optim", "adamw_torch"))
    kinds = [name for name in memory_forecast.STATES if optimizer.split("_")[0] == name]
    if not kinds or "bit" in optimizer:
        raise ValueError(f"the optimizer {optimizer} is not one of {', '.join(memory_forecast.STATES)}")
    lora = _lora(args, shape) if is_on(args.get("use_peft")) else None
    dtype = args.get("dtype", "auto")
    if dtype == "bfloat16" and not lora:
        raise ValueError("dtype is bfloat16")
    bf16 = is_on(args.get("bf16", precision == "bf16"))
    return Settings(
        batch=_whole(args, "per_device_train_batch_size", 8),
        length=_length(job, args, shape),
        bf16=bf16,
        bf16_weights=bool(lora) and (bf16 if dtype == "auto" else dtype == "bfloat16"),
        checkpointing=is_on(args.get("gradient_checkpointing")) or is_on(args.get("activation_checkpointing")),
        state_bytes=memory_forecast.STATES[kinds[0]],
        lora=lora,
        sharding=job.sharding,
        accumulates=_whole(args, "gradient_accumulation_steps", 1) > 1,
    )


def _length(job: Job, args: Mapping[str, Any], shape: model_shape.Shape) -> int:
    if not shape.vocabulary:
        return shape.positions
    name, default = SCRIPTS.get(job.script.name, ("", 0))
    name = name or next(
        (argument for argument in ("max_length", "max_seq_length", "block_size") if argument in args), ""
    )
    if not name:
        raise ValueError(f"the length of a row in {job.script.name} is not known")
    length = _whole(args, name, default)
    return length if shape.decoder else min(length, shape.positions)


def _rows_are_full(job: Job, shape: model_shape.Shape) -> bool:
    """Return whether each batch is as long as settings_of has it, not as the longest of its texts."""
    return not shape.vocabulary or fills_rows(job)


def fills_rows(job: Job) -> bool:
    """Return whether a job's script makes all rows as long as the longest may be, by its arguments."""
    args = arguments(job)
    if job.script.name == DECODER_SCRIPT:
        return is_on(args.get("packing"))
    pads = job.script.name in AS_STORED and not is_on(args.get("no_pad_to_max_length"))
    return is_on(args.get("pad_to_max_length", pads))


def _whole(args: Mapping[str, Any], name: str, default: int) -> int:
    try:
        return max(1, int(args.get(name, default)))
    except (TypeError, ValueError):
        raise ValueError(f"the argument {name} is {args[name]!r}") from None


def _lora(args: Mapping[str, Any], shape: model_shape.Shape) -> Lora:
    targets = args.get("lora_target_modules", ["all-linear"])
    targets = targets if isinstance(targets, (list, tuple)) else [targets]
    targets = list(shape.matrices()) if targets == ["all-linear"] else targets
    unknown = [str(name) for name in targets if name not in shape.matrices()]
    if unknown or not shape.decoder:
        raise ValueError(f"LoRA of {unknown[0] if unknown else shape.model_type} is not known")
    try:
        dropout = float(args.get("lora_dropout", 0.05))
    except (TypeError, ValueError):
        raise ValueError(f"the argument lora_dropout is {args['lora_dropout']!r}") from None
    return Lora(_whole(args, "lora_r", 16), tuple(targets), dropout)


def check(
    job: Job, plan: Plan, cache: Path, memory: Mapping[str, int], packages: Mapping[str, str], refuses: bool = True
) -> dict[str, Any]:
    """Return {note, hosts: {host: bytes by part, total, has}, warnings, rows}: what the plan shows; {} where nothing
    trains. rows: tokens of a row, where these are the most that it can have, and texts decide.

    memory: bytes of each host, 0 where that is not known. packages: of the stack, with their versions. refuses:
    whether what is known not to fit raises ValueError, instead of being a warning.
    """
    if not job.of_kind().takes_trainer_arguments:
        return {}
    try:
        shape = shape_of(job, cache)
        optimized = plan.optimized()
        wanted = replace(
            settings_of(replace(job, args=batches.arguments(job, plan.world_size)), shape, plan.precision),
            blocks=optimizing.ATTENTION in optimized,
            chunks=optimizing.LOSS in optimized and not is_on(arguments(job).get("label_smoothing_factor")),
        )
        rows = _evaluated(job)
    except ValueError as error:
        return {"note": f"Memory is not forecast: {error}.", "hosts": {}, "warnings": []}
    forecasts: dict[str, Any] = {"note": "", "hosts": {}, "warnings": []}
    full = _rows_are_full(job, shape)
    if not full:
        forecasts["rows"] = wanted.length
    errors: list[str] = []
    beyond = False
    for same in _alike(plan, memory):
        ranks, has = len(same[0].ranks), memory.get(same[0].host, 0)
        here = replace(wanted, ranks=plan.world_size, on_host=ranks)
        forecast = memory_forecast.forecast(shape, here)
        hosts = [host.host for host in same]
        if rows and has:
            forecasts["warnings"] += _of_evaluation(shape, here, rows, names(hosts), has)
        parts = {name: value * ranks for name, value in asdict(forecast).items() if name in _ROOMS}
        for host in hosts:
            forecasts["hosts"][host] = {**parts, "total": forecast.host, "has": has}
        if not has or forecast.host <= NEAR * has:
            continue
        text = f"{names(hosts)}: training would take {size(forecast.host)} at its peak, of {size(has)}"
        text += "" if full else f", with rows of {wanted.length} tokens"
        if forecast.host <= has:
            forecasts["warnings"].append(f"{text}: other processes have little room.")
            continue
        listed = "\n".join(f"  - {change}" for change in changes(job, shape, here, has, len(plan.hosts), packages))
        errors.append(f"{text}. Each of these changes of the job makes it smaller:\n{listed}")
        # What texts decide is no reason to refuse: a single token is the least that they have.
        least = forecast.host if full else _peak(shape, here, {"length": 1})
        beyond = beyond or least > BEYOND * has
    if refuses and beyond and job.script.name in SCRIPTS and DERIVED not in job.name:
        raise ValueError(
            f"Job {job.name} does not fit into memory:\n"
            + "\n".join(errors)
            + f"\n-e {OVERRIDE}=false starts it all the same."
        )
    forecasts["warnings"] += errors
    return forecasts


def _evaluated(job: Job) -> int:
    """Return how many rows of the vocabulary's logits an evaluation has at once; 0 where there is none."""
    args = arguments(job)
    evaluates = job.script.name == DECODER_SCRIPT and any(is_on(args.get(name)) for name in EVALUATED)
    return _whole(args, "per_device_eval_batch_size", 8) if evaluates else 0


def _of_evaluation(shape: model_shape.Shape, wanted: Settings, rows: int, hosts: str, has: int) -> list[str]:
    """Warn of an evaluation that takes more than training and than hosts have.

    Nothing is refused for it: there may be fewer rows to evaluate.
    """
    peaks = {
        rows >> power: memory_forecast.evaluation(shape, wanted, rows >> power) for power in range(rows.bit_length())
    }
    if peaks[rows] <= max(NEAR * has, memory_forecast.forecast(shape, wanted).host):
        return []
    fits = next((fewer for fewer, peak in peaks.items() if peak <= NEAR * has), 0)
    change = f": set the argument per_device_eval_batch_size: {fits}" if fits else ""
    return [f"{hosts}: evaluating {rows} rows at once would take up to {size(peaks[rows])}, of {size(has)}{change}."]


def _alike(plan: Plan, memory: Mapping[str, int]) -> list[list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for host in plan.hosts:
        groups.setdefault((len(host.ranks), memory.get(host.host, 0)), []).append(host)
    return list(groups.values())


def changes(
    job: Job, shape: model_shape.Shape, wanted: Settings, has: int, hosts: int, packages: Mapping[str, str]
) -> list[str]:
    """Return three changes of a job that take less memory, with their figures: those that fit, singly or together.

    hosts: of the job. packages: as check has them. Where fewer fit, those that come nearest follow.
    """
    args = arguments(job)
    tried: list[tuple[str, dict[str, Any]]] = []
    if not wanted.checkpointing:
        tried.append(("the argument gradient_checkpointing: true", {"checkpointing": True}))
    halves = [{"batch": wanted.batch >> power, "accumulates": True} for power in range(1, wanted.batch.bit_length())]
    if halves:
        best = _first(shape, wanted, halves, has)
        steps = -(-wanted.batch // int(best["batch"])) * _whole(args, "gradient_accumulation_steps", 1)
        text = f"the arguments per_device_train_batch_size: {best['batch']}, gradient_accumulation_steps: {steps}"
        text = f"the argument per_device_train_batch_size: {best['batch']}" if job.global_batch else text
        tried.append((text, best))
    if (
        wanted.ranks > 1
        and wanted.sharding != memory_forecast.FULL
        and not wanted.lora
        and number(packages.get("transformers", "0")) >= SHARDING
        and job.gradient_compression == "none"
        and not is_on(args.get("load_best_model_at_end"))
    ):
        tried.append(("the field sharding: full", {"sharding": memory_forecast.FULL}))
    fewer = [
        {"on_host": number, "ranks": wanted.ranks - hosts * (wanted.on_host - number)}
        for number in range(wanted.on_host - 1, 0, -1)
    ]
    if job.global_batch:  # which fewer ranks must divide, too, and of which each has more
        sizes = [batches.of_job(job, each["ranks"]) for each in fewer]
        size_now = batches.of_job(job, wanted.ranks).size
        fewer = [{**each, "batch": own.per_device} for each, own in zip(fewer, sizes) if own.size == size_now]
    if fewer:
        best = _first(shape, wanted, fewer, has)
        tried.append((f"the field ranks_per_node: {best['on_host']}", best))
    if (
        not wanted.lora
        and wanted.sharding == memory_forecast.UNSHARDED
        and shape.decoder
        and job.script.name == DECODER_SCRIPT
        and "peft" in packages
        and not is_on(args.get("from_scratch"))
    ):
        lora = Lora(16, tuple(shape.matrices()))
        tried.append(("the argument use_peft: true (LoRA)", {"lora": lora, "bf16_weights": wanted.bf16}))
    if shape.vocabulary and wanted.length > 64 and job.script.name in SCRIPTS:
        text = f"the argument {SCRIPTS[job.script.name][0]}: {wanted.length // 2}"
        tried.append((text, {"length": wanted.length // 2}))
    sized = [(text, _peak(shape, wanted, made)) for text, made in tried]
    alone = [change for change in sized if change[1] <= has]
    left = [change for change, (_text, peak) in zip(tried, sized) if peak > has]
    together: list[tuple[str, int]] = []
    fitting = alone
    for number_of_them in range(2, len(left) + 1):
        if number_of_them > 2 and fitting:
            break
        for some in itertools.combinations(left, number_of_them):
            every = {name: value for _text, made in some for name, value in made.items()}
            if not {"lora", "sharding"} <= set(every):  # of which a job can have one
                together.append((" and ".join(text for text, _made in some), _peak(shape, wanted, every)))
        fitting = alone + sorted((change for change in together if change[1] <= has), key=lambda change: change[1])
    short = sorted((change for change in [*sized, *together] if change[1] > has), key=lambda change: change[1])
    return [
        f"{size(peak)} with {text}{'' if peak <= has else ', which does not fit either'}"
        for text, peak in [*fitting, *short][:3]
    ]


def _first(shape: model_shape.Shape, wanted: Settings, tried: list[dict[str, Any]], has: int) -> dict[str, Any]:
    """Return the first of these changes that fits, else the last."""
    return next((made for made in tried if _peak(shape, wanted, made) <= has), tried[-1])


def _peak(shape: model_shape.Shape, wanted: Settings, made: Mapping[str, Any]) -> int:
    return memory_forecast.forecast(shape, replace(wanted, **made)).host


def lines(forecasts: Mapping[str, Any]) -> list[str]:
    """Return what the plan shows: a sentence for the hosts with the same forecast."""
    if forecasts.get("note"):
        return [forecasts["note"]]
    groups: dict[str, list[str]] = {}
    for host, parts in forecasts.get("hosts", {}).items():
        of_host = f" of {size(parts['has'])}" if parts["has"] else ""
        rows = f", with rows of {forecasts['rows']} tokens" if forecasts.get("rows") else ""
        listed = ", ".join(
            f"{'optimizer states' if name == 'states' else name} {size(parts[name])}" for name in _ROOMS if parts[name]
        )
        groups.setdefault(f"{size(parts['total'])}{of_host} at the peak{rows} ({listed})", []).append(host)
    return [f"Memory of {names(hosts)}: {text}." for text, hosts in groups.items()]
