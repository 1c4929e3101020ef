# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML, and JSON, that a user has written: a key that is twice in a mapping is an error, not the last one's value.

PyYAML is imported where it is needed only: the control node has it, hosts need not.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def load(text: str) -> Any:
    """Return what a YAML document holds. Raises yaml.YAMLError, also for a key that is there twice."""
    import yaml

    return yaml.load(text, Loader=loader())


def problem(error: Exception) -> str:
    """Return what is wrong with a document, and in which line, without a word of it but keys: it may have a secret."""
    mark = getattr(error, "problem_mark", None)
    message = ", ".join(filter(None, (getattr(error, "context", ""), getattr(error, "problem", ""))))
    where = f"line {mark.line + 1}, column {mark.column + 1}: {message}" if mark else " ".join(str(error).split())
    return where if getattr(error, "is_yaml", False) else f"is not YAML: {where}"


@cache
def loader() -> Any:
    """Return the class that reads plain data, for subclasses with tags of their own."""
    import yaml

    class Refused(yaml.constructor.ConstructorError):
        """Valid YAML without a meaning here."""

        is_yaml = True

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            # As it is written: merged keys (<<) may be overridden, and come later.
            node = super().compose_mapping_node(anchor)
            lines: dict[Any, int] = {}
            for key, _value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                value = key.tag, self.construct_object(key)
                if value in lines:
                    first = lines[value]
                    raise Refused(
                        None,
                        None,
                        f"the key {key.value} is there twice, first in line {first}: remove one",
                        key.start_mark,
                    )
                lines[value] = key.start_mark.line + 1
            return node

        def compose_node(self, parent: Any, index: Any) -> Any:
            if not self.check_event(yaml.AliasEvent):
                node = super().compose_node(parent, index)
                self.complete.add(id(node))
                return node
            event = self.peek_event()
            node = super().compose_node(parent, index)
            if id(node) not in self.complete:
                raise Refused(None, None, f"*{event.anchor} is within what it stands for", event.start_mark)
            return node

        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.complete: set[int] = set()

    return Loader
