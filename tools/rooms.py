"""The rooms of the logic, as their __init__.py has it: what lives there, and from which others they import."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent / "plugins/module_utils"


class Room(NamedTuple):
    """A directory of plugins/module_utils. imports: other rooms; the files beside the rooms are for all of them."""

    name: str
    what: str
    imports: tuple[str, ...]


def rooms() -> list[Room]:
    """Return the rooms, each after those that it imports from. Raises ValueError for one that declares nothing."""
    by_name = {}
    for path in sorted(path for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"):
        text = ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))) or ""
        declared = re.fullmatch(r"(.+)\nImports from: (.+)\.", text)
        if not declared:
            raise ValueError(f"{path.name}/__init__.py: expected a line, then 'Imports from: ROOM, ... .'")
        names = () if declared[2] == "none" else tuple(declared[2].split(", "))
        by_name[path.name] = Room(path.name, declared[1], names)
    order = TopologicalSorter({room.name: room.imports for room in by_name.values()})
    return [by_name[name] for name in order.static_order()]
