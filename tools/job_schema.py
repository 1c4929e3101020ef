"""The JSON Schema of job files, made from the code that checks them; written by generated_docs.py for editors.

Types and patterns are those of plugins/module_utils/_jobs/job_fields.py, defaults those of Job, and descriptions those
of the table in docs/job_files.md. What a schema cannot say (whether a file is there, which fields contradict each
other) is left to the code.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_field, job_fields, known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/job_files.md"
FILE = ROOT / "jobs/job.schema.json"
TABLE = re.compile(r"^\| (`[^|]*`) \| [^|]* \| (.*) \|$", re.MULTILINE)

Schema = dict[str, Any]


def whole(pattern: re.Pattern[str]) -> Schema:
    """Text that a pattern matches as a whole."""
    return {"type": "string", "pattern": f"^(?:{pattern.pattern})$"}


def count(least: int) -> Schema:
    """A whole number of at least `least`."""
    return {"type": "integer", "minimum": least}


def mapping(values: Schema, names: Schema | None = None) -> Schema:
    """Names and values of these forms."""
    return {"type": "object", "additionalProperties": values, **({"propertyNames": names} if names else {})}


def fields(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """These fields and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
    }


def texts(values: Schema) -> Schema:
    """A list of texts of this form."""
    return {"type": "array", "items": values}


TEXT: Schema = {"type": "string", "minLength": 1}
SWITCH: Schema = {"type": "boolean"}
SCALAR: Schema = {"type": ["string", "number", "boolean"]}
ARGS = mapping({"anyOf": [SCALAR, {"type": "array", "items": SCALAR}]}, {"pattern": "^[^-]"})
SOURCE_FIELDS: dict[str, Schema] = {
    "package": whole(job_fields.PINNED),
    "hub": whole(job_fields.HUB),
    "files": {**texts({"type": "string"}), "minItems": 1},
    "at": {"enum": ["control", "head"]},
}
SOURCE: Schema = {
    "oneOf": [
        fields(
            {name: SOURCE_FIELDS.get(name, TEXT) for name in (kind, *more)},
            (kind, "path") if kind == "package" else (kind,),
        )
        for kind, more in job_fields.SOURCES.items()
    ]
}
SOURCES = mapping(SOURCE, whole(job_fields.NAME))
ENV = mapping({"type": ["string", "number"]}, whole(job_fields.VARIABLE))
CORES: Schema = {"anyOf": [count(0), {"const": "auto"}]}
RANKS: Schema = {"anyOf": [count(1), {"const": "auto"}, whole(job_fields.AT_MOST)]}

NUMBER: Schema = {"type": "number", "exclusiveMinimum": 0}


def several(values: Schema) -> Schema:
    """A list of at least one value of this form, each once."""
    return {"type": "array", "items": values, "minItems": 1, "uniqueItems": True}


INFERENCE = fields(
    {
        "models": several(TEXT),
        "tasks": mapping({"enum": list(known_models.TASKS)}),
        "precisions": several({"enum": list(inference_field.PRECISIONS)}),
        "engines": several({"enum": list(inference_field.ENGINES)}),
        "int8": several({"enum": list(inference_field.INT8)}),
        "channels_last": {"anyOf": [SWITCH, {"const": "auto"}]},
        "batch_sizes": several(count(1)),
        "sequence_lengths": several(count(2)),
        "new_tokens": count(1),
        "instances_per_node": several({"anyOf": [count(1), {"enum": [inference_field.AUTO, inference_field.CORES]}]}),
        "threads_per_instance": several(count(1)),
        "rates": {"type": "array", "items": NUMBER},
        "seconds": NUMBER,
        "warmup": count(0),
        "p99_ms": {"anyOf": [NUMBER, {"type": "null"}]},
        "budget": NUMBER,
        "agreement": {"type": "number", "minimum": 0, "maximum": 1},
        "emulation": SWITCH,
        "evaluation": mapping({"type": "string", "pattern": r"^[^/]+/.*\.csv$"}),
    },
    ("models",),
)

# The form of each value, by the function that checks it.
FORMS: dict[Callable[[object, Path], Any], Schema] = {
    job_fields._name: whole(job_fields.NAME),
    job_fields._text: {"type": "string"},
    job_fields._script_or_example: TEXT,
    job_fields._args: ARGS,
    job_fields._prepare: fields({"script": TEXT, "args": ARGS}, ("script",)),
    job_fields._sources: SOURCES,
    job_fields._metrics: SOURCES,
    job_fields._requirements: texts({"anyOf": [whole(job_fields.PINNED), {"type": "string", "pattern": r"git\+.+@"}]}),
    job_fields._hosts: {"anyOf": [count(1), {"type": "array", "minItems": 1, "uniqueItems": True}]},
    job_fields._project: TEXT,
    job_fields._wheels: texts(TEXT),
    job_fields._at_least_one: count(1),
    job_fields._ranks_per_node: RANKS,
    job_fields._cores: CORES,
    job_fields._threads_per_core: {"anyOf": [count(1), {"const": "all"}]},
    job_fields._env: ENV,
    job_fields._env_launcher: ENV,
    job_fields._env_from: texts(whole(job_fields.VARIABLE)),
    job_fields._expect: mapping({"type": "number"}),
    job_fields._checkpoints: fields(
        {each.name: count(1) for each in dataclasses.fields(job_fields.Checkpoints)}, ("steps",)
    ),
    job_fields._whole: count(0),
    job_fields._switch: SWITCH,
    job_fields._measure: {"anyOf": [SWITCH, fields({"warmup_steps": count(0), "split": SWITCH})]},
    inference_field.read: INFERENCE,
    job_fields._watch: fields({each.name: SWITCH for each in dataclasses.fields(job_fields.Watch)}),
}


def form(check: Callable[[object, Path], Any]) -> Schema | None:
    """Return the form of a value that `check` accepts; None where it is not known."""
    if check in FORMS:
        return FORMS[check]
    try:
        check(object(), ROOT)
    except ValueError as error:
        choices = re.search(r" is not one of (.*)$", str(error))
        return {"enum": choices[1].split(", ")} if choices else None
    return None


def descriptions() -> dict[str, str]:
    """Return the meaning of each field as plain text, from the table of docs/job_files.md."""
    found: dict[str, str] = {}
    for names, meaning in TABLE.findall(PAGE.read_text(encoding="utf-8")):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning).replace("`", "")
        for name in re.findall(r"`(\w+)`", names):
            found.setdefault(name, plain)
    return found


def schema() -> Schema:
    """Return the JSON Schema. Raises ValueError for a field whose form is not known."""
    meanings = descriptions()
    defaults = {each.name: each.default for each in dataclasses.fields(Job)}
    properties: dict[str, Schema] = {}
    for name, check in job_fields.FIELDS.items():
        accepted = form(check)
        if accepted is None:
            raise ValueError(f"the form of {name} is not known: add its check to FORMS in tools/job_schema.py")
        default = defaults.get(name)
        shown = {"default": default} if isinstance(default, (str, int)) and default != "" else {}
        properties[name] = {"description": meanings.get(name, ""), **accepted, **shown}
    properties["trainer"] = {"description": "older form of kind", "type": "boolean", "deprecated": True}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of amx.cluster",
        "description": "What to train, and how: see docs/job_files.md.",
        **fields(properties, ("name",)),
        # A job of kind inference has the collection's own script.
        "if": {"properties": {"kind": {"const": "inference"}}, "required": ["kind"]},
        "then": {"required": ["inference"]},
        "else": {"required": ["script"]},
    }


def text() -> str:
    """Return the file's text."""
    return json.dumps(schema(), indent=2) + "\n"
