# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of `amx --help` and `amx COMMAND --help`."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.table import ANSIBLE, COMMANDS, Command, Option

# Options of ansible-playbook in the overview; the help of each command has all.
FIRST = ("-i", "-l", "-C", "-v", "-K")


def overview() -> str:
    """Return one screen: all commands by group, each with a line."""
    rows = {
        group: [(command.usage, command.text) for command in COMMANDS if command.group == group]
        for group in table.GROUPS
    }
    first, *others = table.OWN.values()
    rows[next(iter(table.GROUPS))].insert(0, first)
    rows["more"] += others
    options = [(name.replace(", --inventory", ""), text) for name, text in _ansible(FIRST)]
    width = max(len(left) for lines in (*rows.values(), options) for left, _text in lines)
    parts = ["usage: amx [-i INVENTORY] [-v] COMMAND [arguments]"]
    parts += [f"\n{title}:\n{_lines(rows[group], width)}" for group, title in table.GROUPS.items()]
    parts.append(f"\nOptions:\n{_lines(options, width)}")
    parts.append("\n`amx COMMAND --help` lists the options of a command.")
    return "\n".join(parts)


def own(name: str) -> str:
    """Return the usage of a command that runs no playbook, and what it does."""
    usage, text = table.OWN[name]
    return f"usage: amx {usage}\n\n{text[0].upper()}{text[1:]}."


def of(command: Command) -> str:
    """Return the arguments and options of a command, each with a line."""
    usage = [f"usage: amx {command.usage} [options]"]
    instead = command.option(command.instead)
    if instead:
        words = [instead.switch, instead.value, *(argument.value for argument in command.arguments[1:])]
        usage.append(f"       amx {command.name} {' '.join(words)} [options]")
    arguments = [(argument.value, argument.text) for argument in command.arguments]
    options = [row for option in command.options for row in _option(option)]
    passed = [
        *_ansible(name for option in ANSIBLE for name in option.names[:1]),
        ("--", "what follows is for ansible-playbook"),
    ]
    width = max(len(left) for left, _text in (*arguments, *options, *passed))
    parts = [*usage, f"\n{command.text[0].upper()}{command.text[1:]}: the playbook {command.playbook}."]
    for title, rows in (("Arguments", arguments), ("Options", options), ("Options of ansible-playbook", passed)):
        if rows:
            parts.append(f"\n{title}:\n{_lines(rows, width)}")
    return "\n".join(parts)


def _lines(rows: Iterable[tuple[str, str]], width: int) -> str:
    return "\n".join(f"  {left:<{width}}  {text}" for left, text in rows)


def _option(option: Option) -> list[tuple[str, str]]:
    if option is table.OVERRIDE:
        return [
            (f"{option.switch} {option.value}", option.text),
            (f"{table.HOSTS} N", f"short for {option.switch} hosts=N"),
        ]
    if option is table.FORMAT:
        return [(option.switch, option.text)]
    if option.opposite:
        return [(option.off, option.text)]
    if option.value == table.FLAG:
        return [(f"--[no-]{option.switch[2:]}", option.text)]
    values = f" ({', '.join(option.choices)})" if option.choices and not option.alone else ""
    return [(f"{option.switch} {option.value}", option.text + values)]


def _ansible(names: Iterable[str]) -> list[tuple[str, str]]:
    shown = set(names)
    return [
        (", ".join(option.names) + (f" {option.value}" if option.value else ""), option.text)
        for option in ANSIBLE
        if option.names[0] in shown
    ]
