# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The forms of values that users write: for each the check of a value, its JSON Schema, and its words in the docs.

A mapping of fields is declared as a dataclass whose fields are made by `field`. Its check, its schema and its table in
the docs follow from that.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._documents import defaults

# With so many known fields a message lists them, instead of guessing which one was meant.
FEW = 6


@dataclass(frozen=True)
class Place:
    """Directory in which relative paths in a file begin.

    directory: of the file. project: the project that it is about, where there is one.
    """

    directory: Path = Path()
    project: Path | None = None


@dataclass(frozen=True)
class Form:
    """Form of values: their check, their schema and their description.

    schema: their JSON Schema. words: what they are, in Markdown, for a table of fields. check: returns the value as the
    code has it; raises ValueError, naming the value and what is expected.
    """

    schema: dict[str, Any]
    words: str
    check: Callable[[object, Place], Any]

    def then(self, further: Callable[[Any], Any]) -> Form:
        """Return a form that passes checked values through `further`."""
        return replace(self, check=lambda value, place: further(self.check(value, place)))


@dataclass(frozen=True)
class Field:
    """A field of a mapping. text: what it sets, in Markdown, where the docs have a table of such fields."""

    form: Form
    text: str = ""


def field(row: Field | Form, default: Any = MISSING) -> Any:
    """Return what declares a field of a dataclass. default: its value, or the function that makes it, such as dict."""
    about = {"field": row if isinstance(row, Field) else Field(row)}
    if default is MISSING or not callable(default):
        return dataclasses.field(default=default, metadata=about)  # pylint: disable=invalid-field-call
    return dataclasses.field(default_factory=default, metadata=about)  # pylint: disable=invalid-field-call


def declared(cls: type) -> dict[str, Any]:
    """Return the fields that a dataclass declares by `field`, by name, each a Field or what `field` was given."""
    return {each.name: each.metadata["field"] for each in dataclasses.fields(cls) if "field" in each.metadata}


def type_name(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    # Ansible's text is of classes of its own.
    return next((text for kind, text in names.items() if isinstance(value, kind)), "a number")


def check_fields(
    known: Mapping[str, Field], given: Mapping[Any, Any], place: Place, required: tuple[str, ...] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the checked values of a mapping of fields, and all that is wrong with it, each with the field's name."""
    errors = []
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1) if len(known) > FEW else []
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(known)}"
            errors.append(f"{name}: unknown field; {hint}")
    errors += [f"{name}: is missing" for name in required if name not in given]
    values = {}
    for name, row in known.items():
        if name in given:
            try:
                values[name] = row.form.check(given[name], place)
            except ValueError as error:
                errors.append(f"{name}: {error}")
    return values, errors


def schema_of_fields(known: Mapping[str, Field], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a mapping with these fields and no others."""
    return {
        "type": "object",
        "properties": {name: row.form.schema for name, row in known.items()},
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
    }


def record(cls: type, example: str, **forms: Form) -> Form:
    """Mappings with the fields of a dataclass; those without a default are required.

    forms: of the fields, by name, where the dataclass does not declare them itself.
    """
    known = {name: Field(form) for name, form in forms.items()} or declared(cls)
    required = tuple(name for name in known if name not in defaults(cls))

    def check(value: object, place: Place) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{type_name(value)} where a mapping such as {example} is expected")
        values, errors = check_fields(known, value, place, required)
        if errors:
            raise ValueError("; ".join(errors))
        return cls(**values)

    return Form(schema_of_fields(known, required), ", ".join(f"`{name}`" for name in known), check)


def text(least: int = 1) -> Form:
    """Text of at least so many characters."""

    def check(value: object, _place: Place) -> str:
        if not isinstance(value, str) or len(value) < least:
            raise ValueError(f"{value!r} is not text")
        return value

    return Form({"type": "string", **({"minLength": least} if least else {})}, "text", check)


def matching(pattern: re.Pattern[str], label: str, words: str = "text") -> Form:
    """Return a form of text that a pattern matches completely. label: of such text, for messages."""

    def check(value: object, _place: Place) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is not {label}")
        return value

    return Form({"type": "string", "pattern": f"^(?:{pattern.pattern})$"}, words, check)


def one_of(*choices: str) -> Form:
    """Return a form of one of a few words."""

    def check(value: object, _place: Place) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return Form({"enum": list(choices)}, ", ".join(f"`{choice}`" for choice in choices), check)


def whole(least: int, most: int | None = None) -> Form:
    """A whole number of at least `least`, and at most `most`."""
    expected = f"at least {least}" + (f" and at most {most}" if most else "")

    def check(value: object, _place: Place) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
            raise ValueError(f"{value!r} is not a whole number of {expected}")
        return value

    return Form({"type": "integer", "minimum": least, **({"maximum": most} if most else {})}, "a number", check)


def number(label: str = "a number", accepts: Callable[[float], bool] = lambda value: True, **schema: float) -> Form:
    """Return a form of a number that `accepts` accepts, and `label` and `schema` describe."""

    def check(value: object, _place: Place) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not accepts(value):
            raise ValueError(f"{value!r} is not {label}")
        return float(value)

    return Form({"type": "number", **schema}, label, check)


def any_of(*forms: Form, message: str = "") -> Form:
    """A value of one of these forms. message: about a value of none, after it; without, the last form's."""

    def check(value: object, place: Place) -> Any:
        for each in forms[:-1]:
            try:
                return each.check(value, place)
            except ValueError:
                continue
        try:
            return forms[-1].check(value, place)
        except ValueError as error:
            raise ValueError(f"{value!r} {message}" if message else str(error)) from None

    schemas = {"anyOf": [each.schema for each in forms]}
    return Form(schemas, ", ".join(dict.fromkeys(each.words for each in forms)), check)


def list_of(each: Form, label: str, words: str = "", least: int = 0, unique: bool = False) -> Form:
    """A list of at least `least` values of a form. label: what it is, for messages. unique: each of them once."""

    def check(value: object, place: Place) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{type_name(value)} where {label} is expected")
        if len(value) < least:
            raise ValueError(f"an empty list where {label} is expected")
        if unique and len({str(item) for item in value}) != len(value):
            raise ValueError(f"{value!r} has an entry twice")
        return [each.check(item, place) for item in value]

    limits = {**({"minItems": least} if least else {}), **({"uniqueItems": True} if unique else {})}
    schema = {"type": "array", "items": each.schema, **limits}
    return Form(schema, words or label, check)


def mapping(values: Form, names: Form | None = None, words: str = "a mapping") -> Form:
    """A mapping of names to values of a form."""

    def check(value: object, place: Place) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"{type_name(value)} where a mapping with names as keys is expected")
        checked, errors = {}, []
        for key, item in value.items():
            try:
                checked[names.check(key, place) if names else key] = values.check(item, place)
            except ValueError as error:
                errors.append(f"{key}: {error}")
        if errors:
            raise ValueError("; ".join(errors))
        return checked

    schema = {
        "type": "object",
        "additionalProperties": values.schema,
        **({"propertyNames": names.schema} if names else {}),
    }
    return Form(schema, words, check)


def _switch(value: object, _place: Place) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _nothing(value: object, _place: Place) -> None:
    if value is not None:
        raise ValueError(f"{value!r} is not null")


SWITCH = Form({"type": "boolean"}, "`true`, `false`", _switch)
NOTHING = Form({"type": "null"}, "nothing", _nothing)
