"""The JSON Schema of job files, and the list of their fields in docs/job_files.md, from what Job declares.

What a schema cannot say (whether a file is there, which fields contradict each other) is left to the code.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _forms
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_fields, kinds
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import DEFAULTS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS

# Neither code nor addresses are divided.
UNBROKEN: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
FILE = Path(__file__).resolve().parent.parent / "jobs/job.schema.json"


def shown_default(name: str) -> str | int | None:
    """Return the default of a field where it says something."""
    default = DEFAULTS.get(name)
    return default if isinstance(default, (str, int)) and default != "" else None


# Schemas that several fields have, by name.
SHARED = {"arguments": job_fields.ARGUMENTS.schema, "sources": job_fields.PROVIDED.schema}


def shared(schema: Any) -> Any:
    """Return a schema with references to those that are SHARED."""
    if isinstance(schema, dict):
        name = next((name for name, definition in SHARED.items() if definition is schema), "")
        return {"$ref": f"#/$defs/{name}"} if name else {key: shared(value) for key, value in schema.items()}
    return schema


def schema() -> dict[str, Any]:
    """Return the JSON Schema."""
    whole = _forms.schema_of_fields(FIELDS, ("name",))
    for name, row in FIELDS.items():
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row.text).replace("`", "")
        default = shown_default(name)
        whole["properties"][name] = {
            "description": plain,
            **shared(row.form.schema),
            **({} if default is None else {"default": default}),
        }
    whole["properties"]["trainer"] = {"description": "older form of kind", "type": "boolean", "deprecated": True}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of amx.cluster",
        "description": "What to train, and how: see docs/job_files.md.",
        **whole,
        "$defs": SHARED,
        # A job of kind inference has the collection's own script.
        "if": {"properties": {"kind": {"const": kinds.INFERENCE.name}}, "required": ["kind"]},
        "then": {"required": list(kinds.INFERENCE.required)},
        "else": {"required": list(kinds.TRAINER.required)},
    }


def text() -> str:
    """Return the file's text."""
    return json.dumps(schema(), indent=2) + "\n"


def fields() -> str:
    """Return the list of fields: name, values with the default in bold, and meaning."""
    items = []
    for name, row in FIELDS.items():
        words, default = row.form.words, shown_default(name)
        if default is not None:
            word = f"`{default if isinstance(default, str) else json.dumps(default)}`"
            words = words.replace(word, f"**{word}**") if word in words else f"{words}, default {default}"
        pods = "; not on [Kubernetes](kubernetes.md)" if row.hosts_only else ""
        items.append(f"- `{name}` ({words}): {row.text}{pods}")
    return "\n".join(textwrap.fill(item, 120, subsequent_indent="  ", **UNBROKEN) for item in items) + "\n"
