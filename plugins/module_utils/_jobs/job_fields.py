# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of a job file: their types, and the check of each value."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Callable

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_field, kinds, provided, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import known
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
# In the names of derived jobs, so that no job file has them.
DERIVED = "+"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+")
HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
AT_MOST = re.compile(r"<=([1-9][0-9]*)")
PRECISIONS = ("auto", "bf16", "fp32")
BACKENDS = ("auto", "mpi", "gloo", "ccl")
COMPRESSIONS = ("none", "bf16")
# What the job directory has of its own beside the job's scripts.
TAKEN = ("rank.py", "supervise.py", secret_env.FILE)
# Where a script lies that is one of the transformers examples, in transformers' repository and in the job directory.
EXAMPLES = Path("transformers/examples")


@dataclass(frozen=True)
class Prepare:
    """A script that the head runs once, before any rank, in the job directory; what it leaves in data/ and models/
    is passed to every host."""

    script: Path
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where a model or dataset comes from: one of package (with path), directory (with at) and hub.

    package, path: a Python package that carries it, pinned, and its directory in it. directory, at: a directory on the
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
class Watch:
    """What a running job is watched for: see docs/watching.md."""

    gradients: bool = True
    stall: bool = True
    group: bool = True


@dataclass(frozen=True)
class Measure:
    """How the steps of a job are timed: see docs/where_the_time_goes.md.

    warmup_steps: steps at the beginning that do not count. split: whether each step is divided into computing,
    communication and input.
    """

    warmup_steps: int = 5
    split: bool = True


def type_name(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def _text(value: object, _directory: Path) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _name(value: object, _directory: Path) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: lower-case letters, digits, '.', '_' and '-', at most 63, "
            "the first a letter or a digit"
        )
    return value


def _project(value: object, directory: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    place = (directory / Path(value).expanduser()).resolve()
    if not place.is_dir():
        raise ValueError(f"there is no directory {place} on the control node")
    return place


def script_in_project(value: object, directory: Path) -> Path:
    """Return the path of a script in a project; raises ValueError for another place, and for what is no script."""
    script = _script(value, directory)
    if not script.is_relative_to(directory):
        raise ValueError(
            f"{value} is not in the project {directory}: name it by its path in that directory, as in "
            "script: scripts/train.py"
        )
    return script


def _script(value: object, directory: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    script = (directory / value).resolve()
    if not script.is_file():
        example = (
            f"; one of the transformers examples is {EXAMPLES}/DIRECTORY/.../NAME.py" if "examples" in value else ""
        )
        raise ValueError(f"there is no file {script}{example}")
    try:
        ast.parse(script.read_bytes(), str(script))
    except SyntaxError as error:
        raise ValueError(f"{script}, line {error.lineno}, is not Python: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{script} is not Python: {error}") from error
    return script


def _script_or_example(value: object, directory: Path) -> Path:
    if not isinstance(value, str) or not Path(value).is_relative_to(EXAMPLES):
        return _script(value, directory)
    example = Path(value)
    if ".." in example.parts or example.suffix != ".py" or len(example.parts) < 4:
        raise ValueError(f"{value} is not a script of the transformers examples, {EXAMPLES}/DIRECTORY/.../NAME.py")
    return example


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{type_name(value)} where a mapping with names as keys is expected")
    return value


def _args(value: object, _directory: Path) -> dict[str, Any]:
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


def _prepare(value: object, directory: Path) -> Prepare:
    return _prepared(value, directory, _script)


def prepare_in_project(value: object, directory: Path) -> Prepare:
    """Return what a project's own script prepares; raises ValueError as script_in_project does."""
    return _prepared(value, directory, script_in_project)


def _prepared(value: object, directory: Path, script: Callable[[object, Path], Path]) -> Prepare:
    given = _mapping(value)
    _only(given, ("script", "args"), ("script",))
    return Prepare(script(given["script"], directory), _args(given.get("args", {}), directory))


SOURCES: dict[str, tuple[str, ...]] = {
    "package": ("path",),
    "directory": ("at",),
    "hub": ("revision", "files", "at"),
}


def _sources(value: object, directory: Path) -> dict[str, Source]:
    sources = {}
    for name, entry in _mapping(value).items():
        try:
            _name(name, directory)
            sources[name] = _source(_mapping(entry), directory)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return sources


def _source(entry: dict[str, Any], directory: Path) -> Source:
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
        there = (directory / given).resolve()
        if not there.is_dir():
            raise ValueError(f"directory: there is no directory {there} on the control node")
        return Source(directory=str(there))
    return Source(**entry)


def _metrics(value: object, directory: Path) -> dict[str, Source]:
    sources = _sources(value, directory)
    for name in sources:
        if name in (
            *provided.DIRECTORIES.values(),
            *TAKEN,
            "data",
            "output",
            "lib",
            "observe",
            "collectives",
            "packages",
            project.DIRECTORY,
            project.INSTALLED,
            EXAMPLES.parts[0],
        ):
            raise ValueError(f"{name}: is a directory that the job directory has already")
    return sources


def _requirements(value: object, _directory: Path) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{type_name(value)} where a list of packages is expected")
    for item in value:
        if not isinstance(item, str) or not (PINNED.fullmatch(item) or packaging_files.GIT.fullmatch(item)):
            raise ValueError(f"{item!r} is not pinned as NAME==VERSION or git+URL@REF")
    return list(value)


def _wheels(value: object, directory: Path) -> list[Path]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f"{type_name(value)} where a list of wheels and of directories with wheels is expected")
    paths = [(directory / Path(item).expanduser()).resolve() for item in value]
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no {path} on the control node")
    packaging_files.wheels(paths)
    return paths


def _checkpoints(value: object, _directory: Path) -> Checkpoints:
    given = _mapping(value)
    _only(given, ("steps", "keep"), ("steps",))
    counts = {}
    for key, item in given.items():
        try:
            counts[key] = _count(item, 1)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    return Checkpoints(**counts)


def _one_of(value: object, known_values: tuple[str, ...]) -> str:
    if value not in known_values:
        raise ValueError(f"{value!r} is not one of {', '.join(known_values)}")
    return str(value)


def _watch(value: object, directory: Path) -> Watch:
    switches = _mapping(value)
    _only(switches, tuple(each.name for each in fields(Watch)), ())
    for key, item in switches.items():
        try:
            _switch(item, directory)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    return Watch(**switches)


def _measure(value: object, directory: Path) -> Measure | None:
    if isinstance(value, bool):
        return Measure() if value else None
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is neither true, false nor a mapping such as {{warmup_steps: 5, split: true}}")
    _only(value, tuple(each.name for each in fields(Measure)), ())
    for key, check in (("warmup_steps", _whole), ("split", _switch)):
        if key in value:
            try:
                check(value[key], directory)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
    return Measure(**value)


def _count(value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r} is not a whole number of at least {least}")
    return value


def _hosts(value: object, _directory: Path) -> int | list[str]:
    if isinstance(value, list):
        names = [str(name) for name in value]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"{value!r} is not a list of names of hosts, each named once")
        return names
    return _count(value, 1)


def _at_least_one(value: object, _directory: Path) -> int:
    return _count(value, 1)


def _ranks_per_node(value: object, _directory: Path) -> int | str:
    if value == "auto" or (isinstance(value, str) and AT_MOST.fullmatch(value)):
        return str(value)
    try:
        return _count(value, 1)
    except ValueError:
        raise ValueError(
            f"{value!r} is neither a whole number of at least 1, nor auto (one rank per NUMA node), "
            "nor '<=N' (N, or fewer where there are fewer cores)"
        ) from None


def _cores(value: object, _directory: Path) -> int | str:
    return "auto" if value == "auto" else _count(value, 0)


def _threads_per_core(value: object, _directory: Path) -> int | str:
    if value == "all":
        return "all"
    try:
        return _count(value, 1)
    except ValueError:
        raise ValueError(
            f"{value!r} is neither a whole number of at least 1 nor all (every hardware thread of a core)"
        ) from None


def _env(value: object, _directory: Path) -> dict[str, str]:
    env = {}
    for key, item in _mapping(value).items():
        secret = secret_env.looks_secret(key)
        if not VARIABLE.fullmatch(key):
            raise ValueError(f"{key!r} is not a name of an environment variable")
        if isinstance(item, (dict, list, bool, type(None))):
            shown = type_name(item) if secret else repr(item)
            raise ValueError(f"{key}: {shown} is neither text nor a number")
        if secret and "{{" in str(item):
            raise ValueError(
                f"{key}: job files have no templates: set job_env: {{{key}: ...}} in the inventory, and write "
                f"env_from: [{key}] here"
            )
        env[key] = str(item)
    return env


def _env_launcher(value: object, directory: Path) -> dict[str, str]:
    env = _env(value, directory)
    for name in secret_env.found_in(env):
        raise ValueError(f"{name} looks like a secret, and the launcher's variables are no secrets: use env_from")
    for name in env:
        if name.startswith("AMX_CLUSTER_"):
            raise ValueError(f"{name} is a variable of the collection itself: leave it out")
    return env


def _env_from(value: object, _directory: Path) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{type_name(value)} where a list of names in job_env is expected")
    for item in value:
        if not isinstance(item, str) or not VARIABLE.fullmatch(item):
            raise ValueError(f"{item!r} is not a name of an environment variable")
    return list(dict.fromkeys(value))


def _expect(value: object, _directory: Path) -> dict[str, float]:
    expect = _mapping(value)
    for key, item in expect.items():
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise ValueError(f"{key}: {item!r} is not a number")
    return {key: float(item) for key, item in expect.items()}


def _whole(value: object, _directory: Path) -> int:
    return _count(value, 0)


def _switch(value: object, _directory: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


FIELDS: dict[str, Callable[[object, Path], Any]] = {
    "name": _name,
    "description": _text,
    "project": _project,
    "project_max_mb": _at_least_one,
    "script": _script_or_example,
    "args": _args,
    "prepare": _prepare,
    "models": _sources,
    "data": _sources,
    "metrics": _metrics,
    "requirements": _requirements,
    "wheels": _wheels,
    "precision": lambda value, _directory: _one_of(value, PRECISIONS),
    "hosts": _hosts,
    "ranks_per_node": _ranks_per_node,
    "comm_cores": _cores,
    "reserved_cores": _cores,
    "threads_per_core": _threads_per_core,
    "env": _env,
    "env_launcher": _env_launcher,
    "env_from": _env_from,
    "expect": _expect,
    "checkpoints": _checkpoints,
    "restarts": _whole,
    "min_hosts": _at_least_one,
    "keep_global_batch": _switch,
    "stall_seconds": _whole,
    "wait": _switch,
    "kind": lambda value, _directory: _one_of(value, kinds.IN_JOB_FILES),
    "backend": lambda value, _directory: _one_of(value, BACKENDS),
    "gradient_compression": lambda value, _directory: _one_of(value, COMPRESSIONS),
    "launcher": lambda value, _directory: _one_of(value, tuple(known.LAUNCHERS)),
    "watch": _watch,
    "measure": _measure,
    "inference": inference_field.read,
}
