"""The rooms of the logic import only what their __init__.py declares, and modules send few of their files to hosts."""

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


def shipped(path: Path) -> set[Path]:
    """Return the files of the logic that Ansible packs with a module: its imports, and theirs, also those for types."""
    reached: set[Path] = set()
    left = [path]
    while left:
        tree = ast.parse(left.pop().read_text(encoding="utf-8"))
        for node in [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]:
            if (node.module or "").startswith(PREFIX):
                place = rooms.ROOT.joinpath(*(node.module or "").removeprefix(PREFIX).split("."))
                files = [place / f"{alias.name}.py" for alias in node.names] + [place.with_suffix(".py")]
                new = {file for file in files if file.is_file()} - reached
                reached |= new
                left += new
    return reached


@pytest.mark.parametrize(
    ("module", "most"),
    [
        *[("amx_info", 1), ("core_allocation", 3), ("job_info", 17), ("job_end", 19), ("jobs_info", 20)],
        *[("job_host_info", 30), ("reset_files", 33), ("reset_info", 34), ("host_info", 53)],
    ],
)
def test_a_module_sends_no_more_files_to_a_host_than_it_needs(module: str, most: int) -> None:
    files = shipped(rooms.ROOT.parent / "modules" / f"{module}.py")
    assert 1 <= len(files) <= most, sorted(str(file.relative_to(rooms.ROOT)) for file in files)


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
