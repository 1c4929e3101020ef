# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The forms of the values of a job file; job_file.py has the table of its fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _forms
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import PER_PLACE
from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    SWITCH,
    Field,
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
    type_name,
    whole,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds, on_end, optimizing, provided, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    PRECISIONS,
    PREDICTION,
    QUANTIZE,
    SERVER,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints, Measure, Prepare, Source, Watch
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files

# In the names of derived jobs, so that no job file has them.
DERIVED = "+"
# What the job directory has of its own beside the job's scripts.
TAKEN = (secret_env.FILE,)
# Precisions in which nothing is trained.
RUN_ONLY = tuple(precision for precision in PRECISIONS if precision not in ("fp32", "bf16"))
# Where a script lies that is one of the transformers examples, in transformers' repository and in the job directory.
EXAMPLES = Path("transformers/examples")


@dataclass(frozen=True)
class JobField(Field):
    """A field of job files, and what is true of it wherever jobs are read, changed and compared.

    of_script: whether it belongs to the job's own script, so that a job which runs another script has its default.
    of_cores: whether it decides which core does what, as the inventory's cluster_cores does for jobs that leave all of
    these open. tried: whether a trial may change it. compared: whether a measurement of a job that differs in it is
    another measurement. not_for: what to do about it in a job of another kind, {kind: remedy}. hosts_only: why pods do
    not have it, and what to do about it; empty where they have.
    """

    of_script: bool = False
    of_cores: bool = False
    tried: bool = False
    compared: bool = True
    not_for: Mapping[str, str] = field(default_factory=dict)
    hosts_only: str = ""


def row(form: Form, text: str, inference: str = "", **traits: Any) -> JobField:
    """Return a field of job files. text: what it sets, in Markdown, with links relative to docs.

    inference: what to do about it in a job of kind inference, where such a job does not have it. traits: as JobField
    has them.
    """
    not_for = {**traits.pop("not_for", {}), **({kinds.INFERENCE.name: inference} if inference else {})}
    return JobField(form, text, not_for=not_for, **traits)


def _script(value: object, where: Place) -> Path:
    """Return the path of a Python script beside the job file, or in its project where there is one."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    script = ((where.project or where.directory) / value).resolve()
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
    if where.project and not script.is_relative_to(where.project):
        raise ValueError(
            f"{value} is not in the project {where.project}: name it by its path in that directory, as in "
            "script: scripts/train.py"
        )
    return script


def _script_of_ranks(value: object, where: Place) -> Path:
    if where.project or not isinstance(value, str):
        return _script(value, where)
    if Path(value) in (PREDICTION, SERVER, QUANTIZE):
        return Path(value)
    if not Path(value).is_relative_to(EXAMPLES):
        return _script(value, where)
    example = Path(value)
    if ".." in example.parts or example.suffix != ".py" or len(example.parts) < 4:
        raise ValueError(f"{value} is not a script of the transformers examples, {EXAMPLES}/DIRECTORY/.../NAME.py")
    return example


def _request(value: object, where: Place) -> dict[str, Any]:
    """Return the request to a program of the collection, which checks it: as JSON can hold it."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    return dict(json.loads(json.dumps(value)))


def _path(value: object, where: Place) -> Path:
    """Return a path on the control node."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    path = (where.directory / Path(value).expanduser()).resolve()
    if not path.exists():
        raise ValueError(f"there is no {path} on the control node")
    return path


def _directory(value: object, where: Place) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    path = (where.directory / Path(value).expanduser()).resolve()
    if not path.is_dir():
        raise ValueError(f"there is no directory {path} on the control node")
    return path


def _wheels(paths: list[Path]) -> list[Path]:
    packaging_files.wheels(paths)
    return paths


NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
VARIABLE = matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "a name of an environment variable")
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+")
HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")

NAMED = matching(
    NAME,
    "a name: lower-case letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit",
    "lower-case letters, digits, `.`, `_`, `-`",
)
_PATH = text().schema
SCRIPT = Form(_PATH, f"a path relative to the job file, or `{EXAMPLES}/...`", _script_of_ranks)
PROJECT = Form(_PATH, "a directory, relative to the job file", _directory)
WHEELS = list_of(
    Form(_PATH, "a path", _path),
    "a list of wheels and of directories with wheels",
    "a list of files and directories, relative to the job file",
).then(_wheels)
REQUIREMENTS = list_of(
    any_of(
        matching(PINNED, ""),
        # Its named groups are Python's: editors have a simpler pattern.
        replace(matching(packaging_files.GIT, ""), schema={"type": "string", "pattern": r"git\+.+@"}),
        message="is not pinned as NAME==VERSION or git+URL@REF",
    ),
    "a list of packages",
    "a list of `NAME==VERSION` or `git+URL@REF`",
)


def _argument(value: object, _where: Place) -> Any:
    if not all(isinstance(item, (str, int, float, bool)) for item in (value if isinstance(value, list) else [value])):
        raise ValueError(f"{value!r} is neither text, a number, true, false nor a list of them")
    return value


def _without_dashes(name: object, _where: Place) -> Any:
    if str(name).startswith("-"):
        raise ValueError("write the argument without its dashes")
    return name


_SCALAR = {"type": ["string", "number", "boolean"]}
ARGUMENTS = mapping(
    Form({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}, "", _argument),
    Form({"pattern": "^[^-]"}, "", _without_dashes),
)


REQUEST = Form({"type": "object"}, "a mapping", _request)
PROFILED = 5
"""Steps that are profiled with `profile: true`."""
PROFILE = any_of(
    SWITCH, whole(1), message="is neither true, false nor a whole number of at least 1: how many steps are profiled"
).then(lambda value: (PROFILED if value else None) if isinstance(value, bool) else value)


PREPARE = record(
    Prepare, "{script: prepare.py}", script=Form(_PATH, "a path", _script), args=ARGUMENTS, job_args=SWITCH
)
CHECKPOINTS = record(Checkpoints, "{steps: 500, keep: 2}", steps=whole(1), keep=whole(1))
WATCH = record(Watch, "{gradients: false}", gradients=SWITCH, stall=SWITCH, group=SWITCH)
_MEASURE = record(Measure, "{warmup_steps: 5, split: true}", warmup_steps=whole(0), split=SWITCH, profile=PROFILE)


def _measure(value: object, where: Place) -> Measure | None:
    if isinstance(value, dict):
        return _MEASURE.check(value, where)
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true, false nor a mapping such as {{warmup_steps: 5, split: true}}")
    return Measure() if value else None


MEASURE = Form(
    {"anyOf": [SWITCH.schema, _MEASURE.schema]},
    "`false` (default), `true`, or `{warmup_steps: 5, split: true}`",
    _measure,
)


_AT = Field(one_of("control", "head"))
SOURCES: dict[str, dict[str, Field]] = {
    "package": {
        "package": Field(matching(PINNED, "pinned as NAME==VERSION")),
        "path": Field(text()),
    },
    "directory": {"directory": Field(text()), "at": _AT},
    "hub": {
        "hub": Field(matching(HUB, "a repository such as google-bert/bert-base-uncased")),
        "revision": Field(text()),
        "files": Field(list_of(text(), "a list of patterns such as '*.json'", least=1)),
        "at": _AT,
    },
}
"""The fields of each kind of source; the first one tells the kind."""
_REQUIRED = {kind: ("package", "path") if kind == "package" else (kind,) for kind in SOURCES}


def _source(value: object, where: Place) -> Source:
    if not isinstance(value, dict):
        raise ValueError(
            f"{type_name(value)} where a mapping such as {{hub: google-bert/bert-base-uncased}} is expected"
        )
    given = [kind for kind in SOURCES if kind in value]
    if len(given) != 1:
        raise ValueError(f"{' and '.join(given) or 'none'} where one of {', '.join(SOURCES)} is expected")
    values, errors = _forms.check_fields(SOURCES[given[0]], value, where, _REQUIRED[given[0]])
    if errors:
        raise ValueError("; ".join(errors))
    if "path" in values:
        part = Path(values["path"])
        if part.is_absolute() or ".." in part.parts:
            raise ValueError(f"path: {part} is not a path within the package")
    if "directory" in values:
        path = Path(values["directory"]).expanduser()
        if values.get("at") != "head":
            path = (where.directory / path).resolve()
            if not path.is_dir():
                raise ValueError(f"directory: there is no directory {path} on the control node")
        elif not path.is_absolute():
            raise ValueError(f"directory: {path} is not an absolute path, as one on the head must be")
        values["directory"] = str(path)
    return Source(**values)


PROVIDED = mapping(
    Form(
        {"oneOf": [_forms.schema_of_fields(known, _REQUIRED[kind]) for kind, known in SOURCES.items()]},
        "`SOURCE`",
        _source,
    ),
    NAMED,
    "`NAME: SOURCE`",
)


def _metrics(sources: dict[str, Source]) -> dict[str, Source]:
    for name in sources:
        if name in (*provided.RESERVED, *TAKEN):
            raise ValueError(f"{name}: is a directory that the job directory has already")
    return sources


METRICS = PROVIDED.then(_metrics)


def _env(value: object, where: Place) -> dict[str, str]:
    env = {}
    for key, item in mapping(_ANYTHING, VARIABLE).check(value, where).items():
        secret = secret_env.looks_secret(key)
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


def _env_launcher(env: dict[str, str]) -> dict[str, str]:
    for name in secret_env.found_in(env):
        raise ValueError(f"{name} looks like a secret, and the launcher's variables are no secrets: use env_from")
    for name in env:
        if name.startswith("AMX_CLUSTER_"):
            raise ValueError(f"{name} is a variable of the collection itself: leave it out")
    return env


_ANYTHING = Form({"type": ["string", "number"]}, "text or a number", lambda value, _where: value)
ENV = Form(mapping(_ANYTHING, VARIABLE).schema, "a mapping", _env)
ENV_LAUNCHER = ENV.then(_env_launcher)
ENV_FROM = list_of(VARIABLE, "a list of names in job_env", "a list of names").then(
    lambda names: list(dict.fromkeys(names))
)
EXPECT = mapping(number())


def _hosts(value: object, where: Place) -> int | list[str]:
    if not isinstance(value, list):
        return whole(1).check(value, where)
    names = [str(name) for name in value]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{value!r} is not a list of names of hosts, each named once")
    return names


HOSTS = Form(
    {"anyOf": [whole(1).schema, {"type": "array", "minItems": 1, "uniqueItems": True}]},
    "a number or a list of names, default all, on Slurm 1",
    _hosts,
)
AT_MOST = re.compile(r"<=([1-9][0-9]*)")
RANKS = any_of(
    one_of(*PER_PLACE),
    matching(AT_MOST, "", '`"<=N"`'),
    whole(1),
    message="is neither a whole number of at least 1, nor auto (one rank per NUMA node), nor socket (one per socket), "
    "nor '<=N' (N, or fewer where there are fewer cores)",
)
CORES = any_of(one_of("auto"), whole(0))
GLOBAL_BATCH = any_of(
    matching(AT_MOST, "", '`"<=N"`'),
    whole(1),
    message="is neither a whole number of samples of at least 1, nor '<=N' (N, or fewer that the ranks divide)",
)
OPTIMIZE = any_of(
    one_of(optimizing.AUTO, optimizing.NONE),
    list_of(one_of(*optimizing.PARTS), "a list of parts", f"a list of {', '.join(optimizing.PARTS)}", 1, unique=True),
    message=f"is neither auto, none nor a list of {', '.join(optimizing.PARTS)}",
)
THREADS = any_of(
    whole(1),
    one_of("all"),
    message="is neither a whole number of at least 1 nor all (every hardware thread of a core)",
)
ENDS = {
    "command": Field(text()),
    "url": Field(Form({"type": "string", "pattern": "^https?://"}, "a URL", lambda value, _place: _url(value))),
    "url_from": Field(VARIABLE),
}
END = "{command: 'mail -s done me@example.com'}, {url: https://example.com/hook} or {url_from: HOOK_URL}"


def _url(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type_name(value)} where a URL is expected")
    return on_end.checked_url(value)


def _on_end(value: object, place: Place) -> on_end.OnEnd:
    if not isinstance(value, dict):
        raise ValueError(f"{type_name(value)} where a mapping is expected: {END}")
    values, errors = _forms.check_fields(ENDS, value, place, ())
    if errors:
        raise ValueError("; ".join(errors))
    if len(values) != 1:
        raise ValueError(f"{' and '.join(values) or 'nothing'} where one of {', '.join(ENDS)} is expected: {END}")
    return on_end.OnEnd(**values)


ON_END = Form(
    {"oneOf": [_forms.schema_of_fields({name: row}, (name,)) for name, row in ENDS.items()]},
    "`command`, `url` or `url_from`",
    _on_end,
)
