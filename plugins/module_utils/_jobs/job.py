# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job file: what a person asks for, checked whole before anything happens."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from ansible_collections.amx.cluster.plugins.module_utils._jobs import provided

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+")
HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
AT_MOST = re.compile(r"<=([1-9][0-9]*)")
PRECISIONS = ("auto", "bf16", "fp32")
# What the job directory has of its own beside the job's scripts.
TAKEN = ("rank.py", "supervise.py")
# Where a script lies that is one of the transformers examples, in transformers' repository and in the job directory.
EXAMPLES = Path("transformers/examples")
# Arguments of transformers' scripts that name a model or data set, and the field that provides such.
PROVIDED = {
    "model_name_or_path": "models",
    "config_name": "models",
    "tokenizer_name": "models",
    "dataset_name": "data",
}


@dataclass(frozen=True)
class Prepare:
    """A script that the head runs once, before any rank, in the job directory; what it leaves in data/ and models/
    is passed to every host."""

    script: Path
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where a model or data set comes from: one of package (with path), directory (with at) and hub.

    package, path: a Python package that carries it, pinned, and its folder in it. directory, at: a folder on the
    "control" machine or the "head". hub, revision, files, at: a repository of the Hugging Face hub, patterns of its
    files (none: all), and where it is fetched.
    """

    package: str = ""
    path: str = ""
    directory: str = ""
    hub: str = ""
    revision: str = "main"
    files: list[str] = field(default_factory=list)
    at: str = "control"


@dataclass(frozen=True)
class Checkpoints:
    """How often the Trainer saves one, in steps, and how many it keeps (None: all)."""

    steps: int
    keep: int | None = None


@dataclass(frozen=True)
class Job:
    """A valid job. Paths are absolute, on the control machine; a script of the transformers examples is relative."""

    file: Path
    name: str
    script: Path
    description: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    prepare: Prepare | None = None
    models: dict[str, Source] = field(default_factory=dict)
    data: dict[str, Source] = field(default_factory=dict)
    metrics: dict[str, Source] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    precision: str = "auto"
    hosts: int | list[str] | None = None
    ranks_per_node: int | str = "auto"
    comm_cores: int | str = "auto"
    reserved_cores: int | str = "auto"
    env: dict[str, str] = field(default_factory=dict)
    expect: dict[str, float] = field(default_factory=dict)
    checkpoints: Checkpoints | None = None
    restarts: int = 0
    min_hosts: int | None = None
    keep_global_batch: bool = False
    stall_seconds: int = 600
    wait: bool = False
    trainer: bool = True


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
    import yaml  # only here: the control machine has it, while modules may bring this file to hosts that do not

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise JobFileError(path, [f"is not YAML: {' '.join(str(error).split())}"]) from error
    if override:
        if not isinstance(override, dict):
            hint = "as with -e '{override: {hosts: 2}}'"
            raise JobFileError(path, [f"override is {_kind(override)} where a mapping of fields is expected, {hint}"])
        if isinstance(data, dict):
            data = {**data, **{key: _merged(data.get(key), value) for key, value in override.items()}}
    return parse(data, path)


def _merged(own: object, other: object) -> object:
    return {**own, **other} if isinstance(own, dict) and isinstance(other, dict) else other


def parse(data: object, path: Path) -> Job:
    """Check the parsed content of the job file at `path`; relative paths in it are relative to its folder.

    Raises JobFileError as `load` does.
    """
    if not isinstance(data, dict):
        raise JobFileError(path, [f"holds {_kind(data)} where a mapping of fields such as name and script is expected"])
    errors: list[str] = []
    for key in data:
        if key not in FIELDS:
            near = difflib.get_close_matches(str(key), FIELDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(FIELDS)}"
            errors.append(f"{key}: unknown field; {hint}")
    for key in ("name", "script"):
        if key not in data:
            errors.append(f"{key}: is missing")
    values: dict[str, Any] = {}
    for key, check in FIELDS.items():
        if key in data:
            try:
                values[key] = check(data[key], path.parent)
            except ValueError as error:
                errors.append(f"{key}: {error}")
    if not errors:
        job = Job(file=path, **values)
        errors = _same_names([job.script, *([job.prepare.script] if job.prepare else [])]) + _contradictions(job)
    if errors:
        raise JobFileError(path, errors)
    return job


def _contradictions(job: Job) -> list[str]:
    """Say which fields of a job cannot be true together."""
    errors = []
    if job.checkpoints and not job.trainer:
        errors.append("checkpoints: is for transformers' Trainer, and trainer is false: the script saves its own")
    for name in ("save_strategy", "save_steps", "save_total_limit"):
        if job.checkpoints and name in job.args:
            errors.append(f"checkpoints: and the argument {name} say the same: leave one of them out")
    if job.trainer and job.env.get("HF_HUB_OFFLINE", "1") not in ("0", "false", "FALSE", "no", "off"):
        errors += [message for name in PROVIDED if (message := _not_provided(job, name))]
    return errors


def _not_provided(job: Job, name: str) -> str:
    """Say that an argument names a model or data set that ranks will not find, as they look for it offline."""
    value = job.args.get(name)
    if not isinstance(value, str) or value.startswith(("/", ".", "data/", "output/", "~")):
        return ""
    kind = PROVIDED[name]
    # What data sets are called is up to a script of one's own.
    if kind == "data" and job.script.is_absolute():
        return ""
    folder = provided.DIRECTORIES[kind]
    entries = job.models if kind == "models" else job.data
    if any(f"{value}/".startswith(f"{folder}/{entry}/") for entry in entries):
        return ""
    if value.startswith(f"{folder}/"):
        there = f"has only {', '.join(entries)}" if entries else "is empty"
        return f"args: {name}: {value} is provided by nothing: {kind} {there}"
    example = value.rpartition("/")[2]
    return (
        f"args: {name}: {value} would be looked for on the hub, and ranks work offline: provide it with "
        f"{kind}: {{{example.lower()}: {{hub: {value}}}}} and name it {folder}/{example.lower()}"
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


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def _text(value: object, _folder: Path) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _name(value: object, _folder: Path) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: lower-case letters, digits, '.', '_' and '-', at most 63, "
            "the first a letter or a digit"
        )
    return value


def _script(value: object, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    script = (folder / value).resolve()
    if not script.is_file():
        example = f"; one of the transformers examples is {EXAMPLES}/FOLDER/.../NAME.py" if "examples" in value else ""
        raise ValueError(f"there is no file {script}{example}")
    try:
        ast.parse(script.read_bytes(), str(script))
    except SyntaxError as error:
        raise ValueError(f"{script}, line {error.lineno}, is not Python: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{script} is not Python: {error}") from error
    return script


def _script_or_example(value: object, folder: Path) -> Path:
    if not isinstance(value, str) or not Path(value).is_relative_to(EXAMPLES):
        return _script(value, folder)
    example = Path(value)
    if ".." in example.parts or example.suffix != ".py" or len(example.parts) < 4:
        raise ValueError(f"{value} is not a script of the transformers examples, {EXAMPLES}/FOLDER/.../NAME.py")
    return example


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{_kind(value)} where a mapping with names as keys is expected")
    return value


def _args(value: object, _folder: Path) -> dict[str, Any]:
    args = _mapping(value)
    for key, item in args.items():
        items = item if isinstance(item, list) else [item]
        if key.startswith("-"):
            raise ValueError(f"{key}: write the argument without its dashes")
        if not all(isinstance(i, (str, int, float, bool)) for i in items):
            raise ValueError(f"{key}: {item!r} is neither text, a number, true, false nor a list of them")
    return args


def _only(value: dict[str, Any], known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    unknown = sorted(set(value) - set(known))
    missing = [key for key in needed if key not in value]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]}; known fields: {', '.join(known)}")
    if missing:
        raise ValueError(f"{missing[0]} is missing")


def _prepare(value: object, folder: Path) -> Prepare:
    fields = _mapping(value)
    _only(fields, ("script", "args"), ("script",))
    return Prepare(_script(fields["script"], folder), _args(fields.get("args", {}), folder))


SOURCES: dict[str, tuple[str, ...]] = {
    "package": ("path",),
    "directory": ("at",),
    "hub": ("revision", "files", "at"),
}


def _sources(value: object, folder: Path) -> dict[str, Source]:
    sources = {}
    for name, fields in _mapping(value).items():
        try:
            _name(name, folder)
            sources[name] = _source(_mapping(fields), folder)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return sources


def _source(entry: dict[str, Any], folder: Path) -> Source:
    kinds = [kind for kind in SOURCES if kind in entry]
    if len(kinds) != 1:
        raise ValueError(f"{' and '.join(kinds) or 'none'} where one of {', '.join(SOURCES)} is expected")
    kind = kinds[0]
    _only(entry, (kind, *SOURCES[kind]), ("path",) if kind == "package" else ())
    for key, item in entry.items():
        if key == "files":
            if not isinstance(item, list) or not item or not all(isinstance(name, str) for name in item):
                raise ValueError(f"files: {item!r} is not a list of patterns such as '*.json'")
        elif not isinstance(item, str) or not item:
            raise ValueError(f"{key}: {item!r} is not text")
    if entry.get("at", "control") not in ("control", "head"):
        raise ValueError(f"at: {entry['at']!r} is not one of control, head")
    if kind == "package":
        if not PINNED.fullmatch(entry["package"]):
            raise ValueError(f"package: {entry['package']!r} is not pinned as NAME==VERSION")
        where = Path(entry["path"])
        if where.is_absolute() or ".." in where.parts:
            raise ValueError(f"path: {where} is not a path within the package")
    elif kind == "hub" and not HUB.fullmatch(entry["hub"]):
        raise ValueError(f"hub: {entry['hub']!r} is not a repository such as google-bert/bert-base-uncased")
    elif kind == "directory":
        given = Path(entry["directory"]).expanduser()
        if entry.get("at") == "head":
            if not given.is_absolute():
                raise ValueError(f"directory: {given} is not an absolute path, as one on the head must be")
            return Source(directory=str(given), at="head")
        there = (folder / given).resolve()
        if not there.is_dir():
            raise ValueError(f"directory: there is no folder {there} on the control machine")
        return Source(directory=str(there))
    return Source(**entry)


def _metrics(value: object, folder: Path) -> dict[str, Source]:
    sources = _sources(value, folder)
    for name in sources:
        if name in (
            *provided.DIRECTORIES.values(),
            *TAKEN,
            "data",
            "output",
            "lib",
            "observe",
            "packages",
            EXAMPLES.parts[0],
        ):
            raise ValueError(f"{name}: is a folder that the job directory has already")
    return sources


def _requirements(value: object, _folder: Path) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{_kind(value)} where a list of packages is expected")
    for item in value:
        if not isinstance(item, str) or not PINNED.fullmatch(item):
            raise ValueError(f"{item!r} is not pinned as NAME==VERSION")
    return list(value)


def _checkpoints(value: object, _folder: Path) -> Checkpoints:
    fields = _mapping(value)
    _only(fields, ("steps", "keep"), ("steps",))
    counts = {}
    for key, item in fields.items():
        try:
            counts[key] = _count(item, 1)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    return Checkpoints(**counts)


def _precision(value: object, _folder: Path) -> str:
    if value not in PRECISIONS:
        raise ValueError(f"{value!r} is not one of {', '.join(PRECISIONS)}")
    return str(value)


def _count(value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r} is not a whole number of at least {least}")
    return value


def _hosts(value: object, _folder: Path) -> int | list[str]:
    if isinstance(value, list):
        names = [str(name) for name in value]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"{value!r} is not a list of names of hosts, each named once")
        return names
    return _count(value, 1)


def _min_hosts(value: object, _folder: Path) -> int:
    return _count(value, 1)


def _ranks_per_node(value: object, _folder: Path) -> int | str:
    if value == "auto" or (isinstance(value, str) and AT_MOST.fullmatch(value)):
        return str(value)
    try:
        return _count(value, 1)
    except ValueError:
        raise ValueError(
            f"{value!r} is neither a whole number of at least 1, nor auto (one rank per NUMA node), "
            "nor '<=N' (N, or fewer where there are fewer cores)"
        ) from None


def _cores(value: object, _folder: Path) -> int | str:
    return "auto" if value == "auto" else _count(value, 0)


def _env(value: object, _folder: Path) -> dict[str, str]:
    env = {}
    for key, item in _mapping(value).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise ValueError(f"{key!r} is not a name of an environment variable")
        if isinstance(item, (dict, list, bool, type(None))):
            raise ValueError(f"{key}: {item!r} is neither text nor a number")
        env[key] = str(item)
    return env


def _expect(value: object, _folder: Path) -> dict[str, float]:
    expect = _mapping(value)
    for key, item in expect.items():
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise ValueError(f"{key}: {item!r} is not a number")
    return {key: float(item) for key, item in expect.items()}


def _whole(value: object, _folder: Path) -> int:
    return _count(value, 0)


def _switch(value: object, _folder: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


FIELDS: dict[str, Callable[[object, Path], Any]] = {
    "name": _name,
    "description": _text,
    "script": _script_or_example,
    "args": _args,
    "prepare": _prepare,
    "models": _sources,
    "data": _sources,
    "metrics": _metrics,
    "requirements": _requirements,
    "precision": _precision,
    "hosts": _hosts,
    "ranks_per_node": _ranks_per_node,
    "comm_cores": _cores,
    "reserved_cores": _cores,
    "env": _env,
    "expect": _expect,
    "checkpoints": _checkpoints,
    "restarts": _whole,
    "min_hosts": _min_hosts,
    "keep_global_batch": _switch,
    "stall_seconds": _whole,
    "wait": _switch,
    "trainer": _switch,
}
