# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks and options in messages, as commands of `amx`, or with the names that options have for ansible-playbook.

Messages name a playbook site.yml or playbooks/NAME.yml, and an option -e NAME=VALUE, without the prefix of its name.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts.inventory import PLAYBOOK
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.table import Command, Option

# A value ends before the punctuation of the sentence.
VALUE = r"""'[^']*'|"[^"]*"|[^\s'"]+?(?=[),;:.]*(?:\s|$))"""
_OPTION = rf"(?<![\w-])-e\s+(?:(?P<name>\w+)(?:=(?P<value>{VALUE}))?|'(?P<mapping>\{{.*?\}})')"
OPTION = re.compile(_OPTION)
_OPTIONS = re.sub(r"[?]P<\w+>", "?:", _OPTION)
COMMAND = re.compile(rf"{PLAYBOOK.pattern}(?P<options>(?:\s+{_OPTIONS})*)")
NAME = re.compile(r"(?<![\w-])(-e\s+(?:'\{)?)(\w+)")


def for_ansible(text: str) -> str:
    """Return a text in which each option has the name that ansible-playbook takes."""
    return NAME.sub(lambda match: match[1] + (table.PREFIX if match[2] in table.NAMES else "") + match[2], text)


def for_amx(text: str, running: str, inventory_option: str) -> str:
    """Return a text in which each playbook and each option is what `amx` takes.

    running: the command that shows it; an option without a playbook is its own. inventory_option: -i and the inventory,
    where the command was started with it.
    """
    shown = COMMAND.sub(lambda match: _command(match, inventory_option), text)
    return OPTION.sub(lambda match: _alone(match, running), shown)


def _command(match: re.Match[str], inventory_option: str) -> str:
    command = table.BY_PLAYBOOK.get(Path(match[1]).stem)
    if not command:
        return match[0]
    arguments: dict[str, str] = {}
    options: list[str] = []
    for each in OPTION.finditer(match["options"]):
        option = command.option(each["name"] or "")
        if option in command.arguments and each["value"]:
            arguments[option.name] = _argument(option, each["value"])
        else:
            options.append(_option(each, option))
    words = ["amx", inventory_option, command.name]
    words += [arguments[argument.name] for argument in command.arguments if argument.name in arguments]
    return " ".join(filter(None, [*words, *options]))


def _alone(match: re.Match[str], running: str) -> str:
    """Return an option that no playbook stands before: that of the running command, else of any that has it."""
    name = match["name"] or table.OVERRIDE.name
    commands: list[Command] = [*filter(None, [table.BY_NAME.get(running)]), *table.COMMANDS]
    for command in commands:
        option = command.option(name)
        if option:
            is_argument = option in command.arguments and match["value"]
            return _argument(option, match["value"]) if is_argument else _option(match, option)
    return match[0]


def _argument(option: Option, value: str) -> str:
    return value.replace(",", " ") if option is table.RESET else value


def _option(match: re.Match[str], option: Option | None) -> str:
    value, mapping = match["value"], match["mapping"]
    if mapping:
        return _fields(mapping) or match[0]
    if option is None:
        return match[0]
    if option is table.FORMAT or (option.alone and value == "true"):
        return option.switch
    if option.alone and value == "false":
        return option.off
    return f"{option.switch} {value}" if value else option.switch


def _fields(mapping: str) -> str:
    """Return {override: {FIELD: VALUE}} as options; nothing for another mapping."""
    import yaml

    try:
        override = (yaml.safe_load(mapping) or {}).get(table.OVERRIDE.name)
    except (yaml.YAMLError, AttributeError):
        return ""
    if not isinstance(override, dict):
        return ""
    words = (f"{path}={_value(value)}" for path, value in _paths(override))
    return " ".join(f"{table.OVERRIDE.switch} {shlex.quote(word)}" for word in words)


def _value(value: Any) -> str:
    """Return a value as one line of YAML; text as it is where that is read as the same text."""
    import yaml

    if isinstance(value, str) and yaml.safe_load(value) == value and "\n" not in value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _paths(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")
        else:
            yield before + name, value
