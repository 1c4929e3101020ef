"""Pages of the site that are made from files of the project: playbooks, variables of a cluster, fields of job files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import role_interfaces

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = re.compile(r"(?P<name>\w+) \((?P<type>.*?); (?:default: )?(?P<default>.*?)\): (?P<text>.*)", re.DOTALL)
# A command with its options; those in brackets may be left out.
COMMAND = re.compile(r"(ansible-playbook(?: -i \S+)? \S+\.yml(?: -e '[^']*'| -e \S+| \[[^\]]*\])*)")
# An option within a text.
OPTION = re.compile(r"-e (?:'[^']*'|[\w./=,-]*(?:\w|\.\.\.))")


def first_comment(text: str) -> str:
    """Return the comment at the beginning of a YAML file as one line. Raises ValueError if there is none."""
    lines = []
    for line in text.removeprefix("---\n").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    if not lines:
        raise ValueError("there is no comment at the beginning")
    return " ".join(lines)


def playbooks(root: Path = ROOT) -> str:
    """Return the page of playbooks: what each does and its command, both from its first comment."""
    parts = ["# Playbooks", "", "Every playbook can also be called by its full name, such as `amx.cluster.train`.", ""]
    for path in sorted((root / "playbooks").glob("*.yml")):
        comment = first_comment(path.read_text(encoding="utf-8"))
        parts += [f"## {path.name}", ""]
        # Texts and commands in turn; a text that leads to a command ends with a colon.
        for piece in COMMAND.split(comment):
            piece = piece.lstrip(" .,").rstrip(" .")
            if piece.startswith("ansible-playbook "):
                # Options that may be left out have a line of their own.
                parts += ["    " + piece.replace(" [", "\n      [", 1), ""]
            elif piece:
                piece = OPTION.sub(r"`\g<0>`", piece)
                parts += [piece if piece.endswith(":") else f"{piece}.", ""]
    return "\n".join(parts)


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def variables(root: Path = ROOT) -> str:
    """Return the page of a cluster's variables, from the comments of the example inventory.

    Raises ValueError for a paragraph that is not of the form NAME (TYPE; DEFAULT): TEXT.
    """
    text = (root / "inventories/example/group_vars/cluster.yml").read_text(encoding="utf-8")
    rows = ["| variable | type | default | what it sets |", "|---|---|---|---|"]
    for paragraph in text.split("\n\n")[1:]:
        comment = "\n".join(line[2:] for line in paragraph.splitlines() if line.startswith("# "))
        found = VARIABLE.match(comment)
        if not found:
            raise ValueError(f"not of the form NAME (TYPE; DEFAULT): TEXT: {comment[:60]!r}")
        # The setting itself, which is commented out where it has its default, is below its text.
        what = found["text"].split(f"\n{found['name']}: ")[0].replace("docs/", "/docs/")
        what = re.sub(r"/(docs/\w+\.md)", r"[\1](../\1)", what)
        rows.append(f"| `{found['name']}` | {cell(found['type'])} | {cell(found['default'])} | {cell(what)} |")
    return "\n".join(
        [
            "# Variables of a cluster",
            "",
            "They are set in `group_vars/cluster.yml` of the inventory. Each [role](roles.md) has further variables;",
            "options of one run, such as `-e budget=30`, are those of its [playbook](playbooks.md).",
            "",
            *rows,
            "",
        ]
    )


def kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a field of a JSON Schema in words."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(kind(one) for one in schema[several]))
    types = schema.get("type", "any")
    words = " or ".join(types) if isinstance(types, list) else types
    if words == "array" and "items" in schema:
        return f"list of {kind(schema['items'])}"
    return words


def job_schema(root: Path = ROOT) -> str:
    """Return the page of the fields of a job file, from its JSON Schema."""
    schema = json.loads((root / "jobs/job.schema.json").read_text(encoding="utf-8"))
    rows = ["| field | type | default | description |", "|---|---|---|---|"]
    for name, field in sorted(schema["properties"].items()):
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        rows.append(f"| `{name}` | {cell(kind(field))} | {cell(default)} | {cell(field.get('description', ''))} |")
    return "\n".join(
        [
            "# Fields of a job file",
            "",
            "[Job files](../docs/job_files.md) explains the fields. For editors, there is a",
            "[JSON Schema](../jobs/job.schema.json).",
            "",
            *rows,
            "",
        ]
    )


def roles(root: Path = ROOT) -> str:
    """Return the page that lists the READMEs of the roles, with what each does."""
    paths = [root / "roles" / path.parent.name for path in sorted((root / "roles").glob("*/README.md"))]
    rows = [
        f"| [{path.name}](../roles/{path.name}/README.md) |"
        f" {role_interfaces.entry_points(path)['main']['short_description']} |"
        for path in paths
    ]
    entries = "\n".join(f"/roles/{path.name}/README" for path in paths)
    hidden = f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    return "\n".join(["# Roles", "", "| role | what it does |", "|---|---|", *rows, "", hidden])


PAGES = {"playbooks": playbooks, "variables": variables, "job_schema": job_schema, "roles": roles}
