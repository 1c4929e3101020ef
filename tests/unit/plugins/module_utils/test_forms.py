"""Forms of values: what the job files' own tests do not show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _forms
from ansible_collections.amx.cluster.plugins.module_utils._forms import Place, field, record, text, whole


@dataclass(frozen=True)
class Colour:
    """A mapping of fields."""

    name: str = field(text())
    shades: list[int] = field(_forms.list_of(whole(1, 9), "a list of shades", unique=True), list)
    place: Path | None = field(_forms.Form({}, "a path", lambda value, where: where.directory / str(value)), None)


COLOUR = record(Colour, "{name: red}")


def test_a_mapping_becomes_a_dataclass() -> None:
    assert COLOUR.check({"name": "red", "place": "b"}, Place(Path("/a"))) == Colour("red", [], Path("/a/b"))
    assert (COLOUR.words, COLOUR.schema["required"]) == ("`name`, `shades`, `place`", ["name"])


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (3, "a number where a mapping such as {name: red} is expected"),
        ({"shade": 1}, "shade: unknown field; known fields: name, shades, place; name: is missing"),
        ({"name": "", "shades": 1}, "name: '' is not text; shades: a number where a list of shades is expected"),
        ({"name": "red", "shades": [1, 1]}, "shades: [1, 1] has an entry twice"),
        ({"name": "red", "shades": [10]}, "shades: 10 is not a whole number of at least 1 and at most 9"),
        ({"name": "red", "shades": [True]}, "shades: True is not a whole number of at least 1 and at most 9"),
    ],
)
def test_everything_that_is_wrong_is_named(value: object, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        COLOUR.check(value, Place())
