# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON documents as dataclasses: one reader and one writer, by the types of the fields."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

Own = TypeVar("Own", bound="Document")


class Document:
    """A dataclass that JSON has as a mapping of its fields. Fields may be dataclasses, lists and mappings of such, and
    paths."""

    @classmethod
    def from_json(cls: type[Own], document: Mapping[str, Any]) -> Own:
        """Return the document that `to_json` wrote. Raises ValueError for a missing field, and one of another kind.

        Fields that the class does not have are left out; those that `document` does not have get their defaults.
        """
        return cast(Own, _read(cls, document))

    def to_json(self) -> dict[str, Any]:
        """Return the document as JSON can hold it."""
        return _fields(self)


def defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of a dataclass's fields that have one."""
    made = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory() for each in fields(cls)
    }
    return {name: value for name, value in made.items() if value is not MISSING}


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: dataclasses as mappings, paths as text."""
    if isinstance(value, Document):
        return value.to_json()
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _fields(record: Any) -> dict[str, Any]:
    return {each.name: plain(getattr(record, each.name)) for each in fields(record)}


def _read(cls: Any, document: Mapping[str, Any]) -> Any:
    names = ChainMap(*(vars(sys.modules[each.__module__]) for each in cls.__mro__))
    try:
        values = {
            each.name: _value(_annotation(str(each.type)), names, document[each.name])
            for each in fields(cls)
            if each.name in document
        }
        empty = [
            each.name for each in fields(cls) if values.get(each.name, "") is None and not _may_be_null(str(each.type))
        ]
        if not empty:
            return cls(**values)
        problem = f"{empty[0]} is null"
    except (AttributeError, TypeError) as error:  # a person has changed the file
        known = {*document, *defaults(cls)} if isinstance(document, Mapping) else set()
        missing = [each.name for each in fields(cls) if each.name not in known]
        problem = f"it lacks {', '.join(missing)}" if known and missing else str(error)
    raise ValueError(f"this is no {cls.__name__.lower()}: {problem}")


@cache
def _may_be_null(text: str) -> bool:
    return any(
        isinstance(part, ast.Constant) or getattr(part, "id", "") == "Any" for part in ast.walk(_annotation(text))
    )


@cache
def _annotation(text: str) -> ast.expr:
    """Return a type as an expression: typing.get_type_hints cannot evaluate `X | None` before Python 3.10."""
    return ast.parse(text, mode="eval").body


def _value(annotation: ast.expr, names: Mapping[str, Any], value: Any) -> Any:
    """Return a value of JSON as a field of this type has it."""
    if isinstance(annotation, ast.BinOp):  # X | None; a union of others has what JSON has
        return _value(annotation.left, names, value) if isinstance(annotation.right, ast.Constant) else value
    if value is None:
        return None
    if isinstance(annotation, ast.Subscript):
        made = _named(annotation.value, names)
        of = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if made is dict:
            return {_value(of[0], names, key): _value(of[1], names, item) for key, item in value.items()}
        return made(_value(of[0], names, item) for item in value) if made in (list, tuple) else value
    made = _named(annotation, names)
    if isinstance(made, type) and issubclass(made, Document):
        return made.from_json(value)  # which a class may have changed
    if is_dataclass(made):
        return _read(made, value)
    return int(value) if made is int and isinstance(value, str) else Path(value) if made is Path else value


def _named(annotation: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(annotation, ast.Attribute):
        return getattr(_named(annotation.value, names), annotation.attr)
    name = annotation.id if isinstance(annotation, ast.Name) else "object"
    return names[name] if name in names else getattr(builtins, name)
