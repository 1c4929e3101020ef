"""A role's README made from its argument_specs and defaults, and where these two contradict each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
NAMES_DEFAULT = re.compile(r"\b(By|The) default\b", re.IGNORECASE)
GENERATED = "<!-- Written by `make docs` from meta/argument_specs.yml and defaults/main.yml. -->"


def load(path: Path) -> dict[str, Any]:
    """A YAML mapping; empty if there is no such file or nothing in it. ValueError if it is something else."""
    if not path.is_file():
        return {}
    data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(data, dict):
        raise ValueError(f"{path.relative_to(ROOT)}: expected a mapping")
    return data


def entry_points(role: Path) -> dict[str, Any]:
    """The role's entry points by name, `main` first."""
    specs = load(role / "meta" / "argument_specs.yml").get("argument_specs", {})
    return {name: specs[name] or {} for name in sorted(specs, key=lambda name: (name != "main", name))}


def differences(role: Path) -> list[str]:
    """What is wrong with a role's interface, one sentence each.

    Every option stands in defaults, except those a caller must give (`required: true`), and every default is an
    option. Names begin with the role's, so that roles cannot read each other's variables by accident. A default that is
    computed cannot be in argument_specs, from which ansible-doc shows `null` for it: the description has it in words.
    """
    points = entry_points(role)
    defaults = load(role / "defaults" / "main.yml")
    if "main" not in points:
        return ["meta/argument_specs.yml has no entry point `main`"]
    found: list[str] = []
    options: dict[str, Any] = {}
    for point, spec in points.items():
        if not spec.get("short_description"):
            found.append(f"entry point {point} has no short_description")
        for name, option in (spec.get("options") or {}).items():
            options[name] = option
            found += [f"option {name} has no {key}" for key in ("type", "description") if not option.get(key)]
    for name, option in options.items():
        if not name.startswith(f"{role.name}_"):
            found.append(f"option {name} does not begin with {role.name}_")
        if option.get("required"):
            if name in defaults:
                found.append(f"option {name} is required, but has a default")
        elif name not in defaults:
            found.append(f"option {name} is not in defaults/main.yml")
        elif is_computed(defaults[name]) and not NAMES_DEFAULT.search(text(option.get("description"))):
            found.append(f"option {name} has the default {defaults[name]}: describe it, 'By default ...'")
        if "default" in option and name in defaults and option["default"] != defaults[name]:
            found.append(
                f"option {name} has the default {option['default']!r} in argument_specs,"
                f" {defaults[name]!r} in defaults/main.yml"
            )
    found += [f"default {name} is not in meta/argument_specs.yml" for name in defaults if name not in options]
    return found


def is_computed(default: Any) -> bool:
    """Return whether a default is a template."""
    return isinstance(default, str) and "{{" in default


def text(description: Any) -> str:
    """A description, which may be a string or a list of paragraphs, as Markdown."""
    paragraphs = description if isinstance(description, list) else [description or ""]
    # Ansible's markup for code, values, options and modules.
    return re.sub(r"\b[CVOM]\(([^)]+)\)", r"`\1`", "\n\n".join(str(paragraph).strip() for paragraph in paragraphs))


def yaml_value(value: Any) -> str:
    """A default as it is written in YAML, on one line; an expression without the quotes that YAML needs."""
    if isinstance(value, str) and value.startswith("{{"):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def option_type(option: dict[str, Any]) -> str:
    """An option's type in words: `list of str`, or its choices."""
    kind = str(option.get("type", "str"))
    if kind == "list" and option.get("elements"):
        kind = f"list of {option['elements']}"
    if option.get("choices"):
        kind += ": " + ", ".join(f"`{choice}`" if choice != "" else "empty" for choice in option["choices"])
    return kind


def linked(description: str) -> str:
    """A text of a README, in which pages of the documentation become links."""
    return re.sub(r"`(docs/\w+\.md)`", r"[\1](../../\1)", description)


def option_rows(options: dict[str, Any], defaults: dict[str, Any], prefix: str = "") -> list[str]:
    """Table rows for options; those within a dictionary follow it, as `dictionary.key`."""
    rows = []
    for name, option in options.items():
        if option.get("required"):
            default = "**required**"
        elif name in defaults:
            default = "" if defaults[name] is None else f"`{yaml_value(defaults[name])}`"
        elif "default" in option:
            default = f"`{yaml_value(option['default'])}`"
        else:
            default = ""
        description = " ".join(linked(text(option.get("description"))).split())
        cells = (f"`{prefix}{name}`", option_type(option), default, description)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        rows += option_rows(option.get("options") or {}, {}, f"{prefix}{name}.")
    return rows


def readme(role: Path) -> str:
    """The text of a role's README.md. Options are described where they first stand, and only named afterwards."""
    defaults = load(role / "defaults" / "main.yml")
    lines = [f"# amx.cluster.{role.name}", "", GENERATED, ""]
    shown: dict[str, Any] = {}
    for point, spec in entry_points(role).items():
        if point != "main":
            lines += [f"## Entry point `{point}`", ""]
        lines += [text(spec.get("short_description")).rstrip(".") + ".", ""]
        if spec.get("description"):
            lines += [linked(text(spec["description"])), ""]
        options = spec.get("options") or {}
        above = [f"`{name}`" for name, option in options.items() if shown.get(name) == option]
        new = {name: option for name, option in options.items() if shown.get(name) != option}
        shown |= new
        if new:
            lines += ["| variable | type | default | what it is |", "|---|---|---|---|"]
            lines += [*option_rows(new, defaults), ""]
        if above:
            lines += [f"As above: {', '.join(above)}.", ""]
        if not options:
            lines += ["It has no variables.", ""]
    return "\n".join(lines).rstrip() + "\n"


def roles() -> list[Path]:
    """Return the directories of the collection's roles."""
    return sorted(path for path in (ROOT / "roles").glob("*") if (path / "tasks").is_dir())
