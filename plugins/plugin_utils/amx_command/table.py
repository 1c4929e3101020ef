# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of `amx` with their options, which commands.yml declares: one command for each playbook.

From here come the help of `amx`, its completion, the commands that messages recommend, the options that actions read,
and, by `make docs`, variables of roles (defaults/main.yml, meta/argument_specs.yml).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "amx_"
"""How the names of all variables begin that are read from the command line alone."""

FLAG = ""
SET = "FIELD=VALUE"


@dataclass(frozen=True)
class Option:
    """An option of a command, and a variable of the command line.

    name: without the prefix. short: how it is typed, where that is not the name, which is understood as well. opposite:
    what sets it to no, where that has a name of its own. text: what it is for, in one line. value: what its value is,
    for the help; FLAG for yes or no, in brackets where the option may stand without one, which is yes. choices: the
    values that there are, where these are few. structured: whether a value that begins with { or [ is YAML. of_role:
    whether it is a variable of a role itself, which has no prefix. variables: those whose default is the option. type,
    default, details: of these, and what their documentation says besides `text`.
    """

    name: str
    text: str
    value: str = FLAG
    choices: tuple[str, ...] = ()
    structured: bool = False
    of_role: bool = False
    variables: tuple[str, ...] = ()
    type: str = "str"
    default: Any = field(default="", compare=False)
    details: str = ""
    short: str = ""
    opposite: str = ""

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return self.name if self.of_role else PREFIX + self.name

    @property
    def switch(self) -> str:
        """Return the switch of the option, as a user types it."""
        if self is FORMAT or self.value == SET:
            return "--json" if self is FORMAT else "--set"
        return f"--{(self.short or self.name).replace('_', '-')}"

    @property
    def off(self) -> str:
        """Return the switch that sets the option to no."""
        return f"--{self.opposite.replace('_', '-')}" if self.opposite else f"--no-{self.switch[2:]}"

    @property
    def aliases(self) -> dict[str, str]:
        """Other switches that are understood, each with the switch that it stands for."""
        no = f"--no-{self.switch[2:]}"
        switches = {self.off: no} if self.opposite else {}
        if self.short:
            known = self.name.replace("_", "-")
            switches |= {f"--{known}": self.switch, f"--no-{known}": no}
        return switches

    @property
    def alone(self) -> bool:
        """Return whether the option may stand without a value."""
        return self.value == FLAG or self.value.startswith("[")


@dataclass(frozen=True)
class Command:
    """A command, which runs the playbook of its name.

    group: of the help. arguments: those without a name, in their order, of which the first `required` cannot be left
    out. many: whether the last one may be given several times. instead: the name of the option that stands for the
    first argument.
    """

    name: str
    text: str
    group: str
    arguments: tuple[Option, ...] = ()
    options: tuple[Option, ...] = ()
    required: int = 0
    many: bool = False
    instead: str = ""

    @property
    def playbook(self) -> str:
        """The name of the playbook, without its ending."""
        return self.name.replace("-", "_")

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        words = [argument.value + ("..." if self.many else "") for argument in self.arguments]
        return " ".join(
            [self.name, *(word if number < self.required else f"[{word}]" for number, word in enumerate(words))]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arguments and options, without the prefix."""
        return tuple(option.name for option in (*self.arguments, *self.options))

    def option(self, name: str) -> Option | None:
        """Return the option, or the argument, that is the variable of this name, with the prefix or without."""
        every = (*self.arguments, *self.options)
        return next((option for option in every if name in (option.name, option.variable)), None)


def _option(row: Mapping[str, Any], name: str = "") -> Option:
    choices, of_role = tuple(row.get("choices", ())), row.get("of_role", False)
    implied = {"name": name, "text": ", ".join(choices), "structured": of_role}
    variables = (row["name"],) if of_role else tuple(row.get("variables", ()))
    return Option(**{**implied, **row, "choices": choices, "variables": variables})


def _command(name: str, row: dict[str, Any], shared: Mapping[str, tuple[Option, ...]]) -> Command:
    def options(key: str) -> tuple[Option, ...]:
        return tuple(option for each in row.pop(key, ()) for option in shared[each])

    arguments, common = options("arguments"), options("common")
    return Command(name, arguments=arguments, options=(*map(_option, row.pop("options", ())), *common), **row)


def _read(path: Path) -> tuple[dict[str, str], tuple[Command, ...]]:
    """Return the titles of the groups, and the commands, of the file of commands."""
    import yaml

    document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    shared = {
        name: tuple(map(_option, row)) if isinstance(row, list) else (_option(row, name),)
        for name, row in document["shared"].items()
    }
    return document["groups"], tuple(_command(name, row, shared) for name, row in document["commands"].items())


GROUPS, COMMANDS = _read(Path(__file__).with_name("commands.yml"))
BY_NAME = {command.name: command for command in COMMANDS}
BY_PLAYBOOK = {command.playbook: command for command in COMMANDS}
SHELLS = ("bash", "zsh")

OWN = {
    "init": ("init DIRECTORY SERVER...", "make a directory with an inventory of servers ([USER@]HOST) and a job"),
    "version": ("version", "show the versions of the collection, of ansible-core and of Python"),
    "completion": (f"completion {'|'.join(SHELLS)}", f"print a script that completes commands: {' or '.join(SHELLS)}"),
}
"""Commands that run no playbook: {name: (usage, text)}."""

EVERY = tuple(dict.fromkeys(option for command in COMMANDS for option in (*command.arguments, *command.options)))
BY_OPTION = {option.name: option for option in EVERY}
FORMAT, OVERRIDE, RESET = (BY_OPTION[name] for name in ("format", "override", "reset"))

HOSTS = "--hosts"
"""Short for --set hosts=N; of every command that has OVERRIDE."""

NAMES = frozenset(option.name for option in EVERY if not option.of_role)
"""The variables of the command line, without the prefix. Without it, they are known for one more version."""

STRUCTURED = frozenset(
    option.name for option in EVERY if option is OVERRIDE or (option.structured and not option.of_role)
)
"""Those of them that may be a mapping or a list."""


def of_role(role: str) -> Iterator[tuple[str, Option]]:
    """Yield the variables of a role that options set, each with its option."""
    for option in EVERY:
        yield from ((name, option) for name in option.variables if name.startswith(f"{role}_"))


@dataclass(frozen=True)
class Passed:
    """An option of ansible-playbook that `amx` passes on. names: short and long. value: empty where it has none."""

    names: tuple[str, ...]
    text: str
    value: str = ""


ANSIBLE = (
    Passed(("-i", "--inventory"), "the inventory (ANSIBLE_INVENTORY, or that of ansible.cfg)", "INVENTORY"),
    Passed(("-l", "--limit"), "only these hosts", "HOSTS"),
    Passed(("-e", "--extra-vars"), "set a variable, name=value", "VARIABLE"),
    Passed(("-C", "--check"), "change nothing, and show what would be changed"),
    Passed(("-D", "--diff"), "show the changes of files"),
    Passed(("-v", "--verbose"), "print the ansible-playbook command and every task; -vvv more"),
    Passed(("-K", "--ask-become-pass"), "ask for the password of sudo"),
    Passed(("-k", "--ask-pass"), "ask for the password of SSH"),
    Passed(("-u", "--user"), "log in as this user", "USER"),
    Passed(("--private-key", "--key-file"), "log in with this key", "FILE"),
    Passed(("-J", "--ask-vault-password"), "ask for the password of the vault"),
    Passed(("--vault-password-file",), "read the password of the vault from a file", "FILE"),
    Passed(("-f", "--forks"), "so many hosts at once", "N"),
    Passed(("-t", "--tags"), "only tasks with these tags", "TAGS"),
    Passed(("--skip-tags",), "no tasks with these tags", "TAGS"),
)
