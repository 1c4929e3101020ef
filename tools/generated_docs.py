"""Write what is generated in the documentation, or check that it is current.

tools/generated_docs.py check    fails, naming each text that is not current
tools/generated_docs.py write    writes the texts

A block of a page is generated when the page has the two lines

    <!-- begin NAME: written by `make docs` -->
    <!-- end NAME -->

and BLOCKS has a function of that name, which returns the text between them. Generated files are the
JSON Schema of job files, the picture of a server's cores, and meta/main.yml of the roles. Blocks of
defaults/main.yml and meta/argument_specs.yml are the options of commands (option_docs).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

import core_map_picture
import doc_tables
import job_schema
import option_docs
import step_table

# The generated blocks of README.md and docs/*.md by name: functions that return Markdown.
BLOCKS: dict[str, Callable[[], str]] = {
    "rooms": doc_tables.rooms,
    "stacks": doc_tables.stacks,
    "argument names": doc_tables.argument_names,
    "operating systems": doc_tables.operating_systems,
    "versions by Python": doc_tables.pins_by_python,
    "checks of the doctor": doc_tables.checks,
    "job fields": job_schema.fields,
    "pages": doc_tables.pages,
    "cloud fields": doc_tables.cloud_fields,
    "types with AMX": doc_tables.types_with_amx,
    "gradients on servers": step_table.table,
    "scripts compared": doc_tables.scripts_compared,
}
BLOCK = re.compile(
    r"<!-- begin (?P<name>[^:\n]+): written by `make docs` -->\n(?P<text>.*?)<!-- end (?P=name) -->", re.S
)


def generated(page: str, blocks: Mapping[str, Callable[[], str]]) -> tuple[str, list[str]]:
    """Return a page with its blocks written anew, and their names. Raises ValueError for an unknown one."""
    names = []

    def write(block: re.Match[str]) -> str:
        name = block["name"]
        if name not in blocks:
            raise ValueError(
                f"block {name!r} is none of {', '.join(blocks)}: add it to BLOCKS in tools/generated_docs.py"
            )
        names.append(name)
        return f"<!-- begin {name}: written by `make docs` -->\n\n{blocks[name]().strip()}\n\n<!-- end {name} -->"

    written = BLOCK.sub(write, page)
    if page.count("written by `make docs` -->") != len(names):
        raise ValueError("a block begins and does not end, or ends under another name")
    return written, names


def pages(root: Path, blocks: Mapping[str, Callable[[], str]]) -> tuple[dict[Path, str], list[str]]:
    """Return {path: text that it should have} of README.md and docs/*.md, and what is wrong with their blocks."""
    texts, problems, there = {}, [], []
    for path in sorted([root / "README.md", *(root / "docs").glob("*.md")]):
        try:
            texts[path], names = generated(path.read_text(encoding="utf-8"), blocks)
            there += names
        except ValueError as error:
            problems.append(f"{path.relative_to(root)}: {error}")
    problems += [
        f"block {name!r} is in no page: add it to one, or remove it from BLOCKS" for name in blocks if name not in there
    ]
    return texts, problems


def main(arguments: list[str]) -> int:
    """Check or write everything that is generated. Returns the exit code."""
    if arguments not in (["check"], ["write"]):
        print("usage: tools/generated_docs.py check | write", file=sys.stderr)
        return 2
    texts, problems = pages(ROOT, BLOCKS)
    texts[job_schema.FILE] = job_schema.text()
    texts[core_map_picture.FILE] = core_map_picture.text()
    texts |= option_docs.roles()
    texts |= doc_tables.role_metadata(texts)
    for path, text in texts.items():
        name = path.relative_to(ROOT)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments == ["write"]:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        else:
            problems.append(f"{name} is not current: run `make docs`")
    print("\n".join([*problems, f"{len(texts)} files, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
