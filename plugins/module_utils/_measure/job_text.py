# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change fields of a job file or of an inventory's variables in its text: comments and all other lines stay."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _yaml


def changed(text: str, fields: Mapping[str, Any]) -> str:
    """Return the text of a file with these fields set; those of a mapping, such as args, within the file's own.

    Values are numbers, words, true and false. A file without a value gets its first ones. Raises ValueError where that
    cannot be done with these lines alone.
    """
    import yaml  # only here: the control node has it

    wanted = _separate(_read(text, yaml))
    if wanted is None:
        lines = [f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}"]
        for name, value in fields.items():
            inner = value.items() if isinstance(value, Mapping) else ()
            flow = ", ".join(f"{key}: {_scalar(item)}" for key, item in inner)
            lines.append(f"{name}: {f'{{{flow}}}' if inner else _scalar(value)}\n")
        return "".join(lines)
    if not isinstance(wanted, dict):
        raise ValueError("the file holds no mapping of fields")
    for path, value in _flat(fields):
        if _has(wanted, path, value):
            continue
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        text = _set(text, root, path, value, yaml)
        _put(wanted, path, value)
    values = _read(text, yaml)
    if values != wanted:
        raise ValueError("the fields could not be changed without changing others: set them in the file yourself")
    return text


def diff(before: str, after: str, name: str) -> str:
    """Return the unified diff between two texts of a file, which `patch -p1` takes in the file's directory."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _read(text: str, yaml: Any) -> Any:
    """Return what YAML holds; what has a tag of Ansible's, such as !vault, as a string. Raises ValueError."""

    class Loader(_yaml.loader()):  # type: ignore[misc]
        pass

    Loader.add_multi_constructor("!", lambda _loader, tag, node: f"{tag} {node.value}")
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"the file: {_yaml.problem(error)}") from None


def _separate(value: Any) -> Any:
    """Return a value in which nothing is shared, as it is where the text has anchors."""
    if isinstance(value, dict):
        return {key: _separate(item) for key, item in value.items()}
    return [_separate(item) for item in value] if isinstance(value, list) else value


def _flat(fields: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    flat: list[tuple[tuple[str, ...], Any]] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            flat += [((name, inner), item) for inner, item in value.items()]
        else:
            flat.append(((name,), value))
    return flat


def _has(tree: Any, path: tuple[str, ...], value: Any) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return bool(tree == value)


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        inner = tree.get(name)
        tree[name] = inner if isinstance(inner, dict) else {}
        tree = tree[name]
    tree[path[-1]] = value


def _set(text: str, root: Any, path: tuple[str, ...], value: Any, yaml: Any) -> str:
    """Return the text in which one field is set. root: its node."""
    name, *inner = path
    known = {key.value: node for key, node in root.value}
    if name in known and inner and isinstance(known[name], yaml.MappingNode) and known[name].value:
        return _set(text, known[name], tuple(inner), value, yaml)
    written = f"{{{inner[0]}: {_scalar(value)}}}" if inner else _scalar(value)
    if name in known:
        node = known[name]
        if not isinstance(node, yaml.ScalarNode) and not node.flow_style:
            raise ValueError(f"{name} in the file is more than one value: set it to {value} yourself")
        begin, end = node.start_mark.index, node.end_mark.index
        if begin == end:
            written = f" {written}"  # `name:` without a value
        return text[:begin] + written + text[end:]
    if root.flow_style:
        # Right after the last value, as a comment may follow it; an alias has the place of its anchor.
        end = text.index("{", root.start_mark.index) + 1
        for key, node in root.value[-1:]:
            end = node.end_mark.index if node.start_mark.index >= key.end_mark.index else root.end_mark.index - 1
        before = text[:end].rstrip()
        comma = "" if before.endswith((",", "{")) else ", "
        return f"{before}{comma}{name}: {written}{text[end:]}"
    place = _end(root, yaml)
    if text[place - 1 : place] != "\n":
        line = text.find("\n", place)
        if line < 0:
            text, place = f"{text}\n", len(text) + 1
        else:
            place = line + 1
    indent = " " * root.value[0][0].start_mark.column  # the node itself may begin with an anchor
    return f"{text[:place]}{indent}{name}: {written}\n{text[place:]}"


def _end(node: Any, yaml: Any) -> int:
    """Return where the text of a node ends, without what follows of blank lines and comments."""
    if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last, yaml)
    return int(node.end_mark.index)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and "." not in str(value):
        return str(value).replace("e", ".0e")  # 2e-05 is text to a reader of YAML 1.1
    return str(value).lower() if isinstance(value, bool) else str(value)
