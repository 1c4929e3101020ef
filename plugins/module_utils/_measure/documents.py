# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON documents as frozen dataclasses: one reader, one writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, TypeVar

Own = TypeVar("Own", bound="Document")


class Document:
    """A document, or a part of one, whose fields are those of a frozen dataclass, in their order."""

    PARTS: ClassVar[Mapping[str, type[Document]]] = {}
    """The fields that are documents themselves, or lists of such."""

    @classmethod
    def read(cls: type[Own], content: Mapping[str, Any]) -> Own:
        """Return the document in this content, without what is no field of it. Raises ValueError for a missing one."""
        values: dict[str, Any] = {}
        for each in fields(cls):  # type: ignore[arg-type]
            if each.name in content:
                of, value = cls.PARTS.get(each.name), content[each.name]
                if of and value is not None:
                    value = [of.read(part) for part in value] if isinstance(value, list) else of.read(value)
                values[each.name] = value
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"this is no {cls.__name__.lower()}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the document as JSON has it."""
        return asdict(self)  # type: ignore[call-overload]
