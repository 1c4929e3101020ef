"""The reader and the writer of JSON documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _documents
from ansible_collections.amx.cluster.plugins.module_utils._documents import Document, plain


@dataclass(frozen=True)
class Cell:
    """A plain dataclass in a document."""

    name: str
    sizes: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table(Document):
    """A document with a field of each kind."""

    first: Cell
    folder: Path
    second: Cell | None = None
    cells: tuple[Cell, ...] = ()
    named: dict[str, list[Cell]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    hosts: int | list[str] | None = None
    inner: Table | None = None
    cell: _documents.Document | None = None
    anything: Any = None


@dataclass(frozen=True)
class Masked(Table):
    """A document whose JSON is not its fields alone."""

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "folder": "/masked"}


CELL = Cell("a", {2: 0.5})
TABLES = [
    Table(CELL, Path("/a")),
    Table(CELL, Path("b"), CELL, (CELL, CELL), {"x": [CELL], "y": []}, [Path("c")], ["node0"], Table(CELL, Path("d"))),
    Table(CELL, Path(), hosts=3, anything={"name": [1, None, {"path": "e"}]}),
]


@pytest.mark.parametrize("table", TABLES)
def test_a_document_survives_json(table: Table) -> None:
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_fields_of_other_versions_are_ignored_or_have_defaults() -> None:
    content = {"first": {"name": "a", "colour": 1}, "folder": "/a", "further": {}}
    assert Table.from_json(content) == Table(Cell("a"), Path("/a"))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"^this is no table: it lacks first$"):
        Table.from_json({"folder": "/a"})


@pytest.mark.parametrize("name", ["first", "folder", "cells", "named", "paths", "inner"])
@pytest.mark.parametrize("other", [1, ["a"], {"a": 1}])
def test_a_field_of_another_kind_raises_no_other_error(name: str, other: Any) -> None:
    content = {**Table(CELL, Path("/a")).to_json(), name: other}
    try:
        read = Table.from_json(content)
    except ValueError as error:
        assert str(error).startswith("this is no ")
    else:
        assert isinstance(read, Table)


def test_a_document_within_another_writes_itself() -> None:
    outer = Table(CELL, Path("/a"), inner=Masked(CELL, Path("/secret")))
    assert outer.to_json()["inner"]["folder"] == "/masked"
    assert plain([outer])[0]["inner"]["folder"] == "/masked"
    assert Masked.from_json(Table(CELL, Path("/a")).to_json()).first == CELL
