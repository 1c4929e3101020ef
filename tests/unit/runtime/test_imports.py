"""The runtime's packages: no circle of imports, and no module that only a path on sys.path would find."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support.checkout import ROOT

RUNTIME = ROOT / "runtime"
FILES = {path for path in RUNTIME.rglob("*.py") if not path.is_relative_to(RUNTIME / "build")}


def imported(path: Path) -> set[Path]:
    """Return the runtime's files from which a file imports, also within functions and for types alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names.update([str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)])
    places = [RUNTIME.joinpath(*name.split(".")) for name in names]
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")} & FILES - {path}


@pytest.mark.slow
def test_files_are_in_no_circle() -> None:
    graph = {path: imported(path) for path in FILES}
    assert sum(map(len, graph.values())) > 50
    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.slow
def test_modules_are_imported_by_their_full_names() -> None:
    own = {path.stem for path in FILES}
    flat = [
        f"{path.name}: {node.module}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in own
    ]
    assert flat == []


def test_nothing_is_a_link() -> None:
    assert [path for path in RUNTIME.rglob("*") if path.is_symlink()] == []
