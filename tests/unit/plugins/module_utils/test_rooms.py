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


def imported_files(path: Path) -> set[Path]:
    """Return the files of the logic from which a file imports, also those for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            place = rooms.ROOT.joinpath(*(node.module or "").removeprefix(PREFIX).split("."))
            found.update([*(place / f"{alias.name}.py" for alias in node.names), place.with_suffix(".py")])
    return {file for file in found if file.is_file()}


def shipped(path: Path) -> set[Path]:
    """Return the files of the logic that Ansible packs with a module: its imports, and theirs."""
    reached: set[Path] = set()
    left = {path}
    while left:
        left = set().union(*map(imported_files, left)) - reached
        reached |= left
    return reached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "most"),
    [
        *[("amx_info", 1), ("core_allocation", 24), ("job_info", 20), ("job_end", 23), ("jobs_info", 23)],
        *[("job_host_info", 43), ("reset_files", 37), ("reset_info", 38), ("host_info", 59), ("prediction_find", 29)],
    ],
)
def test_a_module_sends_no_more_files_to_a_host_than_it_needs(module: str, most: int) -> None:
    files = shipped(rooms.ROOT.parent / "modules" / f"{module}.py")
    assert 1 <= len(files) <= most, sorted(str(file.relative_to(rooms.ROOT)) for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BESIDE | set(DECLARED)))
def test_a_room_imports_what_it_declares_and_nothing_else(name: str) -> None:
    files = [rooms.ROOT / f"{name}.py"] if name in BESIDE else (rooms.ROOT / name).rglob("*.py")
    assert set().union(*map(imported, files)) - BESIDE - {name} == DECLARED.get(name, set())


@pytest.mark.slow
def test_rooms_and_files_are_in_no_circle() -> None:
    assert list(TopologicalSorter(DECLARED).static_order())
    assert list(TopologicalSorter({path: imported_files(path) for path in rooms.ROOT.rglob("*.py")}).static_order())


@pytest.mark.slow
def test_the_supervisor_loads_no_checker_of_job_files() -> None:
    names = {path.stem for path in shipped(rooms.ROOT / "_jobs/supervisor.py")}
    assert {"job", "plan", "run", "run_files"} <= names
    assert not names & {"_forms", "job_file", "job_fields", "inference_field", "contradictions", "requests"}


def test_the_control_node_and_pods_share_their_interface_only() -> None:
    inside = rooms.ROOT / "_kubernetes"
    crossed = [
        path
        for room, other in (("control", "pod"), ("pod", "control"))
        for path in (inside / room).rglob("*.py")
        if f"_kubernetes.{other}" in path.read_text(encoding="utf-8")
    ]
    assert crossed == []
