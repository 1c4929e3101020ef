# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of a playbook, as one JSON document for programs, or the part of it that a JMESPath query selects.

On the control node only: queries need the library jmespath, which requirements.txt pins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io

display = Display()

FORMATS = ("text", "json")
# Where `amx` has kept its stdout for the document, while all else is printed on stderr.
DESCRIPTOR = re.compile(r"/dev/fd/(\d+)")
# The options of every action that reports. What a task leaves open, ControlNodeAction takes from the command line.
ARGUMENTS: dict[str, Any] = {
    "format": {"type": "str", "choices": list(FORMATS)},
    "query": {"type": "str"},
    "output": {"type": "path"},
}


def refusal(form: str, query: str, output: str) -> str:
    """Return why a document cannot be made with these options; an empty string when it can."""
    if form not in FORMATS:
        return f"format: {form!r} is not one of {', '.join(FORMATS)}"
    if form != "json" and (query or output):
        return f"{'query' if query else 'output'} is for JSON: add -e format=json"
    if output and not Path(output).expanduser().absolute().parent.is_dir():
        return f"output: there is no directory {Path(output).expanduser().absolute().parent} on the control node"
    if output and Path(output).expanduser().is_dir():
        return f"output: {output} is a directory: name a file"
    return _refused_query(str(query)) if query else ""


def select(document: Any, query: str) -> Any:
    """Return what a query selects from a document, as plain data. Raises ValueError when it cannot be evaluated."""
    plain = json.loads(json.dumps(document))
    if not query:
        return plain
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(str(query), plain)
    except JMESPathError as error:
        raise ValueError(f"query: {query!r} cannot be evaluated: {_line(error)}") from None


def emit(document: Any, options: Mapping[str, Any]) -> None:
    """Print a document on one line, or write it to a file, or to a file descriptor that is open, /dev/fd/N.

    options: see ARGUMENTS. Raises ValueError and OSError.
    """
    selected = select(document, options["query"])
    if kept := DESCRIPTOR.fullmatch(options["output"] or ""):
        with open(int(kept[1]), "w", encoding="utf-8", closefd=False) as stream:
            stream.write(f"{json.dumps(selected)}\n")
    elif options["output"]:
        _io.write_json(Path(options["output"]).expanduser().absolute(), selected)
        display.display(f"Wrote {options['output']}")
    else:
        display.display(json.dumps(selected))


def _refused_query(query: str) -> str:
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
        from jmespath.functions import Functions
    except ImportError:
        return (
            "query: the Python library jmespath is missing on the control node: pip install jmespath (requirements.txt)"
        )
    try:
        parsed = jmespath.compile(query).parsed
    except JMESPathError as error:
        return f"query: {query!r} is not JMESPath (https://jmespath.org): {_line(error)}"
    unknown = sorted(_functions(parsed) - set(Functions.FUNCTION_TABLE))
    return f"query: {query!r} is not JMESPath (https://jmespath.org): no function {unknown[0]}()" if unknown else ""


def _functions(node: Any) -> set[str]:
    """Return the names of the functions in a parsed query."""
    if not isinstance(node, dict):
        return set()
    own = {node["value"]} if node["type"] == "function_expression" else set()
    return own.union(*(_functions(child) for child in node.get("children", [])))


def _line(error: Exception) -> str:
    """Return the first line of an error of jmespath, whose message repeats the query below."""
    return (
        str(error)
        .splitlines()[0]
        .removeprefix("Invalid jmespath expression: ")
        .rstrip(":")
        .removesuffix(", for expression")
    )
