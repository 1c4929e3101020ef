"""The rooms of the logic: each imports only from those before it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4] / "plugins/module_utils"
PREFIX = "ansible_collections.amx.cluster.plugins.module_utils"
ROOMS = (
    "_io",
    "_ownership",
    "_text",
    "_screen",
    "_cores",
    "_hosts",
    "_data",
    "_stacks",
    "_jobs",
    "_kubernetes",
    "_measure",
)


def room(path: Path) -> str:
    """The room of a file, or the file itself where it is in none."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The rooms from which a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            inside = (node.module or "").removeprefix(PREFIX).lstrip(".")
            found |= {inside.split(".")[0]} if inside else {alias.name for alias in node.names}
    return found


def test_every_file_is_in_a_room() -> None:
    assert {room(path) for path in ROOT.rglob("*.py")} <= set(ROOMS)


def test_no_room_imports_from_a_later_one() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports from {other}"
        for path in sorted(ROOT.rglob("*.py"))
        for other in sorted(imported(path))
        if ROOMS.index(other) > ROOMS.index(room(path))
    ]
    assert wrong == []
