"""Write what roles have of the options of `amx`, which plugins/plugin_utils/amx_command/commands.yml declares.

A block between two comments of a role's defaults/main.yml has the defaults of the variables that options set, and one
of its meta/argument_specs.yml what they are.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "# begin options: written by `make docs` from plugins/plugin_utils/amx_command/commands.yml"
BLOCK = re.compile(rf"(?m)^( *){re.escape(BEGIN)}\n(?:.*\n)*?^ *# end options$")


def roles(root: Path = ROOT) -> dict[Path, str]:
    """Return {path: text} of defaults/main.yml and meta/argument_specs.yml of the roles with options.

    Raises ValueError for a role with options whose file has no block for them.
    """
    texts = {}
    for role in sorted(path.name for path in (root / "roles").iterdir()):
        for name, lines in (("defaults/main.yml", defaults), ("meta/argument_specs.yml", specification)):
            path = root / "roles" / role / name
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if bool(BLOCK.search(text)) != any(table.of_role(role)):
                raise ValueError(
                    f"{path.relative_to(root)}: a role has the block of options if, and only if, it has any"
                )
            written = "\n".join(lines(role, text))
            texts[path] = BLOCK.sub(
                lambda block: textwrap.indent(f"{BEGIN}\n{written}\n# end options", block[1]),  # noqa: B023
                text,
            )
    return {path: text for path, text in texts.items() if text}


def defaults(role: str, _text: str) -> Iterator[str]:
    """Yield the lines of defaults/main.yml."""
    for variable, option in table.of_role(role):
        value = f"\"{{{{ lookup('amx.cluster.extra_var', '{option.name}') }}}}\""
        yield f"{variable}: {_scalar(option.default) if option.of_role else value}"


def specification(role: str, text: str) -> Iterator[str]:
    """Yield the lines of meta/argument_specs.yml. text: of the file, where entry points may refer to a variable."""
    for variable, option in table.of_role(role):
        yield f"{variable}: &{variable}" if f"*{variable}\n" in text else f"{variable}:"
        yield "  description: >-"
        yield from textwrap.wrap(
            description(option), 130, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False
        )
        yield f"  type: {option.type}"
        if option.type == "list":
            yield "  elements: str"
        if option.of_role:
            if option.choices and option.type != "raw":
                yield f"  choices: [{', '.join(option.choices)}]"
            yield f"  default: {_scalar(option.default)}"


def description(option: table.Option) -> str:
    """Return what the variable of an option is for, in the markup of Ansible's documentation."""
    named = option.text != ", ".join(option.choices)
    text = option.text if named else ", ".join(f"V({choice})" for choice in option.choices)
    text = re.sub(rf" \((the default|{re.escape(str(option.default))})\)$", "", text)
    text = re.sub("`(.*?)`", r"C(\1)", re.sub(r"\bhead:PATH\b", "C(head:PATH)", f"{text[0].upper()}{text[1:]}."))
    default = f", or V({_scalar(option.default)})" if option.default or option.default is False else ", if that is set"
    of_option = "" if option.of_role else f"By default C(-e {option.variable}){default}."
    return " ".join(filter(None, (text, option.details, of_option)))


def _scalar(value: Any) -> str:
    """Return a default as YAML."""
    return value if value and isinstance(value, str) else json.dumps(value)
