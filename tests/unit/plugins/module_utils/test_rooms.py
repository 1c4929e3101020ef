"""The rooms of the logic import only what their __init__.py declares, and never in a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import rooms

PREFIX = "ansible_collections.amx.cluster.plugins.module_utils"
DECLARED = {room.name: set(room.imports) for room in rooms.rooms()}
# Files beside the rooms, for all of them, which import from each other only.
BESIDE = {path.stem for path in rooms.ROOT.glob("*.py")}


def imported(path: Path) -> set[str]:
    """Return the rooms, and the files beside them, from which a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            inside = (node.module or "").removeprefix(PREFIX).lstrip(".")
            found |= {inside.split(".")[0]} if inside else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("name", sorted(BESIDE | set(DECLARED)))
def test_a_room_imports_what_it_declares_and_nothing_else(name: str) -> None:
    files = [rooms.ROOT / f"{name}.py"] if name in BESIDE else (rooms.ROOT / name).rglob("*.py")
    assert set().union(*map(imported, files)) - BESIDE - {name} == DECLARED.get(name, set())


def test_rooms_are_in_no_circle() -> None:
    assert list(TopologicalSorter(DECLARED).static_order())


def test_the_control_node_and_pods_share_their_interface_only() -> None:
    inside = rooms.ROOT / "_kubernetes"
    crossed = [
        path
        for room, other in (("control", "pod"), ("pod", "control"))
        for path in (inside / room).rglob("*.py")
        if f"_kubernetes.{other}" in path.read_text(encoding="utf-8")
    ]
    assert crossed == []
