# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job file: what a user requests, checked completely before anything happens."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_field, kinds, provided, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import (
    FIELDS,
    TAKEN,
    Checkpoints,
    Measure,
    Prepare,
    Source,
    Watch,
    prepare_in_project,
    script_in_project,
    type_name,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import known

# Arguments of transformers' scripts that name a model or dataset, and the field that provides such.
PROVIDED = {
    "model_name_or_path": "models",
    "config_name": "models",
    "tokenizer_name": "models",
    "dataset_name": "data",
}

# The fields that name files of the project, where there is one, and how they are checked then.
IN_PROJECT: dict[str, Callable[[object, Path], Any]] = {"script": script_in_project, "prepare": prepare_in_project}


@dataclass(frozen=True)
class Job:
    """A valid job. Paths are absolute, on the control node; a script of the transformers examples is relative.

    project: the directory that its scripts are in, where there is one.

    secrets: what was in `env` and looks like a secret. Only their names leave this object as JSON or text.
    """

    file: Path
    name: str
    script: Path
    project: Path | None = None
    project_max_mb: int = 200
    description: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    prepare: Prepare | None = None
    models: dict[str, Source] = field(default_factory=dict)
    data: dict[str, Source] = field(default_factory=dict)
    metrics: dict[str, Source] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    wheels: list[Path] = field(default_factory=list)
    precision: str = "auto"
    hosts: int | list[str] | None = None
    ranks_per_node: int | str = "auto"
    comm_cores: int | str = "auto"
    reserved_cores: int | str = "auto"
    threads_per_core: int | str = 1
    env: dict[str, str] = field(default_factory=dict)
    env_launcher: dict[str, str] = field(default_factory=dict)
    env_from: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    expect: dict[str, float] = field(default_factory=dict)
    checkpoints: Checkpoints | None = None
    restarts: int = 0
    min_hosts: int | None = None
    keep_global_batch: bool = False
    stall_seconds: int = 600
    wait: bool = False
    kind: str = kinds.TRAINER.name
    backend: str = "auto"
    gradient_compression: str = "none"
    launcher: str = known.DEFAULT
    watch: Watch = field(default_factory=Watch)
    measure: Measure | None = None
    inference: inference_field.Inference | None = None

    def __post_init__(self) -> None:
        found = secret_env.found_in(self.env)
        if found:
            public = {name: value for name, value in self.env.items() if name not in found}
            object.__setattr__(self, "env", public)
            object.__setattr__(self, "secrets", {**self.secrets, **found})

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON can hold it, without the values of its secrets; from_json is the way back."""
        values = {**asdict(self), "secrets": dict.fromkeys(self.secrets, secret_env.MASK)}
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Job:
        """Return the job that to_json wrote."""
        values = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        values.update(file=Path(values["file"]), script=Path(values["script"]))
        values["project"] = Path(values["project"]) if values.get("project") else None
        values["wheels"] = [Path(path) for path in values.get("wheels", [])]
        if values.get("prepare"):
            values["prepare"] = Prepare(Path(values["prepare"]["script"]), values["prepare"]["args"])
        for name in ("models", "data", "metrics"):
            values[name] = {key: Source(**source) for key, source in values.get(name, {}).items()}
        if values.get("checkpoints"):
            values["checkpoints"] = Checkpoints(**values["checkpoints"])
        values["watch"] = Watch(**values.get("watch", {}))
        values["measure"] = Measure(**values["measure"]) if values.get("measure") else None
        values["inference"] = inference_field.from_json(values.get("inference"))
        return cls(**values)

    def model(self) -> str | None:
        """Return the hub repository, or else the name, of the model that is trained; None where it is not known."""
        given = next((self.args[name] for name in ("model_name_or_path", "config_name") if name in self.args), None)
        if isinstance(given, str):
            name = given[len("models/") :].rstrip("/") if given.startswith("models/") else given
        elif len(self.models) == 1:
            name = next(iter(self.models))
        else:
            return None
        source = self.models.get(name)
        return source.hub or name if source else name

    def of_kind(self) -> kinds.Kind:
        """Return what is true of jobs of this kind."""
        return kinds.KINDS[self.kind]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


class JobFileError(ValueError):
    """Everything that is wrong with a job file, in one message: a line for each error."""

    def __init__(self, path: Path, errors: list[str]) -> None:
        self.errors = errors
        super().__init__(f"{path}: " + ("\n  ".join(["this job cannot be run:", *errors]) if errors[1:] else errors[0]))


def load(path: Path, override: object = None) -> Job:
    """Read and check the job file at `path`; a relative one is taken from the current directory.

    override: a mapping of fields that win over the file's; a mapping in it is merged with the file's.
    Raises JobFileError, whose message names the file and every error in it with what was expected.
    """
    path = path.expanduser().absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = sorted(p.name for p in path.parent.glob("*.yml")) if path.parent.is_dir() else []
        there = f"; {path.parent} holds {', '.join(near)}" if near else ""
        raise JobFileError(path, [f"there is no such job file{there}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileError(path, [f"cannot be read: {error}"]) from error
    import yaml  # only here: the control node has it, while modules may bring this file to hosts that do not

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # Without the lines that a parser's message quotes, which may have a secret; so neither has its traceback.
        raise JobFileError(path, [f"is not YAML: {_where(error)}"]) from None
    if override:
        if not isinstance(override, dict):
            hint = "as with -e '{override: {hosts: 2}}'"
            raise JobFileError(
                path, [f"override is {type_name(override)} where a mapping of fields is expected, {hint}"]
            )
        if isinstance(data, dict):
            data = {**data, **{key: _merged(data.get(key), value) for key, value in override.items()}}
    return parse(data, path)


def _where(error: object) -> str:
    """Say what is wrong with a YAML file, and in which line, without a word of the file."""
    mark = getattr(error, "problem_mark", None)
    said = ", ".join(filter(None, (getattr(error, "context", ""), getattr(error, "problem", ""))))
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else " ".join(str(error).split())


def without_secrets(path: Path) -> str:
    """Return the text of a valid job file; where `env` in it has secrets, the same fields with these masked."""
    text = path.read_text(encoding="utf-8")
    import yaml  # as in load

    data = yaml.safe_load(text)
    env = data.get("env", {}) if isinstance(data, dict) else {}
    hidden = secret_env.found_in(env) if isinstance(env, dict) else {}
    if not hidden:
        return text
    shown = {**data, "env": {**env, **dict.fromkeys(hidden, secret_env.MASK)}}
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _merged(own: object, other: object) -> object:
    return {**own, **other} if isinstance(own, dict) and isinstance(other, dict) else other


def parse(data: object, path: Path) -> Job:
    """Check the parsed content of the job file at `path`; relative paths in it are relative to its directory.

    Raises JobFileError as `load` does.
    """
    if not isinstance(data, dict):
        raise JobFileError(
            path, [f"holds {type_name(data)} where a mapping of fields such as name and script is expected"]
        )
    errors: list[str] = []
    if isinstance(data.get("trainer"), bool) and "kind" not in data:  # what kind was before there were three
        kind = kinds.TRAINER if data["trainer"] else kinds.TORCH
        data = {**{key: value for key, value in data.items() if key != "trainer"}, "kind": kind.name}
    for key in data:
        if key not in FIELDS:
            near = difflib.get_close_matches(str(key), FIELDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(FIELDS)}"
            errors.append(f"{key}: unknown field; {hint}")
    inference = data.get("kind") == kinds.INFERENCE.name
    if inference or "inference" in data:
        errors += _of_inference(data)
    errors += [
        f"{key}: is missing" for key in ("name", "script") if key not in data and (key == "name" or not inference)
    ]
    values: dict[str, Any] = {}
    for key, check in FIELDS.items():
        if key in data and not (inference and key in NOT_OF_INFERENCE):
            in_project = "project" in data and key in IN_PROJECT
            if in_project and "project" not in values:
                continue  # its project is wrong already
            try:
                if in_project:
                    values[key] = IN_PROJECT[key](data[key], values["project"])
                else:
                    values[key] = check(data[key], path.parent)
            except ValueError as error:
                errors.append(f"{key}: {error}")
    if "project_max_mb" in data and "project" not in data:
        errors.append("project_max_mb: is the size of a project, and there is none: leave it out")
    if not errors:
        if inference:
            values.update(project=inference_field.PROGRAMS, script=inference_field.PROGRAMS / inference_field.SCRIPT)
        job = Job(file=path, **values)
        scripts = [job.script, *([job.prepare.script] if job.prepare else [])]
        errors = ([] if job.project else _same_names(scripts)) + _contradictions(job)
    if errors:
        raise JobFileError(path, errors)
    return job


# What a job of kind inference does not set: its script is the collection's, and the benchmark decides the rest.
NOT_OF_INFERENCE = (
    *("script", "project", "args", "prepare", "precision", "ranks_per_node", "comm_cores", "backend", "expect"),
    *("checkpoints", "restarts", "min_hosts", "keep_global_batch", "gradient_compression", "measure"),
)


def _of_inference(data: dict[str, Any]) -> list[str]:
    """Say which fields a job of kind inference does not have, or that another kind has its field."""
    if data.get("kind") != kinds.INFERENCE.name:
        return [f"inference: is for kind {kinds.INFERENCE.name}: set kind: {kinds.INFERENCE.name}, or leave it out"]
    errors = [] if "inference" in data else ["inference: is missing: it lists the models to measure"]
    hints = {
        "ranks_per_node": ": set instances_per_node under inference",
        "precision": ": set precisions under inference",
    }
    return errors + [
        f"{name}: is not for kind {kinds.INFERENCE.name}{hints.get(name, ': leave it out')}"
        for name in NOT_OF_INFERENCE
        if name in data
    ]


def _contradictions(job: Job) -> list[str]:
    """Say which fields of a job cannot be true together."""
    errors = []
    if job.inference:
        errors += inference_field.contradictions(job.inference, list(job.models), list(job.data))
    if job.checkpoints and not job.of_kind().can_resume:
        errors.append(f"checkpoints: is for transformers' Trainer, and kind is {job.kind}: the script saves its own")
    if job.kind == kinds.TRAINER.name and os.path.normpath(str(job.args.get("output_dir", "output"))) != "output":
        errors.append(
            f"args: output_dir: {job.args['output_dir']} is not where checkpoints and results are looked for: "
            "leave it out"
        )
    for name in ("save_strategy", "save_steps", "save_total_limit"):
        if job.checkpoints and name in job.args:
            errors.append(f"checkpoints: and the argument {name} say the same: leave one of them out")
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
    if job.kind == kinds.TRAINER.name and job.env.get("HF_HUB_OFFLINE", "1") not in (
        "0",
        "false",
        "FALSE",
        "no",
        "off",
    ):
        errors += [message for name in PROVIDED if (message := _not_provided(job, name))]
    return errors


def _not_provided(job: Job, name: str) -> str:
    """Say that an argument names a model or dataset that ranks will not find, as they look for it offline."""
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
    if value.startswith(f"{directory}/"):
        there = f"has only {', '.join(entries)}" if entries else "is empty"
        return f"args: {name}: {value} has no matching entry: {kind} {there}"
    example = value.rpartition("/")[2]
    return (
        f"args: {name}: {value} would be looked for on the hub, and ranks work offline: provide it with "
        f"{kind}: {{{example.lower()}: {{hub: {value}}}}} and name it {directory}/{example.lower()}"
    )


def _same_names(scripts: list[Path]) -> list[str]:
    """Say which scripts would overwrite each other, or the launcher's own, in the job directory."""
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
