"""Pages that are linked, or named in code and configuration, are there, and so are their headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.checkout import tracked
from support.pages import anchors

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/\w+\.(?:md|yml)\b")
CODE = ("*.md", "*.yml", "*.py", "*.j2", "*.sh", "Makefile", "*.cfg", "*.toml", "*.txt")


def broken(page: Path) -> list[str]:
    """The links of a page, other than those to web pages, that lead nowhere."""
    found = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _sign, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" not in link and (not target.is_file() or (anchor and anchor not in anchors(target))):
            found.append(link)
    return found


@pytest.mark.parametrize("name", tracked("*.md"))
def test_links_lead_to_pages_and_headings(name: str) -> None:
    assert broken(ROOT / name) == []


def test_pages_that_code_names_are_there() -> None:
    named = {
        (name, page)
        for name in tracked(*CODE)
        if not name.startswith("tests/unit/tools/")  # their pages are made up
        for page in NAMED.findall((ROOT / name).read_text(encoding="utf-8", errors="replace"))
    }
    assert {page for _name, page in named} >= {"docs/doctor.md", "docs/stacks.md", "docs/core_allocation.md"}
    assert [f"{name}: {page}" for name, page in sorted(named) if not (ROOT / page).exists()] == []


def test_every_page_is_in_the_index_of_the_site() -> None:
    index = (ROOT / "docs/docsite/index.md").read_text(encoding="utf-8")
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"README"}
    missing = [page for page in sorted(pages) if f"/docs/{page}" not in index]
    assert missing == []


# A path of the repository in backticks; those that begin with _ are in plugins/module_utils.
PATH = re.compile(r"`((?:_\w+|roles|runtime|jobs|playbooks|plugins|tests|tools|inventories|molecule)/[\w./-]+)`")


@pytest.mark.parametrize(
    ("page", "examples"),
    [
        ("published_recipes.md", {"_jobs/planning.py", "jobs/mrpc-bert.yml", "runtime/amx_cluster/rank.py"}),
        ("architecture.md", {"_jobs/starting.py", "runtime/amx_cluster/observer/heartbeat.py", "_jobs/watch.py"}),
    ],
)
def test_paths_that_a_page_names_are_there(page: str, examples: set[str]) -> None:
    named = {path for path in PATH.findall((ROOT / "docs" / page).read_text(encoding="utf-8")) if "NAME" not in path}
    assert examples <= named
    places = {path: ROOT / ("plugins/module_utils" if path.startswith("_") else "") / path for path in named}
    assert [path for path, place in places.items() if not place.exists()] == []


def test_functions_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(_\w+/[\w/]+\.py)`: `(\w+)`", text)
    assert ("_jobs/watch.py", "take") in named
    sources = {path: (ROOT / "plugins/module_utils" / path).read_text(encoding="utf-8") for path, _name in named}
    assert [pair for pair in named if not re.search(rf"\b(?:def|class) {pair[1]}\b", sources[pair[0]])] == []
