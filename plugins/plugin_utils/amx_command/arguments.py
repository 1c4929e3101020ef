# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of `amx`, and the arguments of ansible-playbook that follow from them."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.table import ANSIBLE, Command, Option, Passed

HELP = ("-h", "--help")
# What -e takes as name=value; other values are given as JSON.
PLAIN = re.compile(r"[\w./:@%+,=-]+")
TRUTH = ("true", "false")


class UsageError(ValueError):
    """The arguments cannot be understood; the message is one line."""


@dataclass(frozen=True)
class Run:
    """A playbook that is to be run. ansible: options of ansible-playbook. variables: those of the command line."""

    command: Command
    ansible: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def is_verbose(self) -> bool:
        """Return whether the command of Ansible is shown."""
        return any(word.startswith("-v") for word in self.ansible)

    @property
    def prints_json(self) -> bool:
        """Return whether a JSON document is printed, and not written to a file."""
        return self.variables.get(table.FORMAT.variable) == "json" and not self.variables.get("amx_output")

    def words(self, playbook: str) -> list[str]:
        """Return the arguments of ansible-playbook."""
        return [*self.ansible, playbook, *(word for pair in self.variables.items() for word in ("-e", _given(*pair)))]


def _given(name: str, value: object) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value):
        return f"{name}={value}"
    return json.dumps({name: value}, ensure_ascii=False)


def split(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that is named, nothing where none is, and all other arguments."""
    valued = {name for option in ANSIBLE if option.value for name in option.names}
    number = 0
    while number < len(argv) and argv[number].startswith("-"):
        number += 2 if argv[number] in valued else 1
    return "".join(argv[number : number + 1]), [*argv[:number], *argv[number + 1 :]]


def command(name: str) -> Command:
    """Return the command of this name. Raises UsageError."""
    if name not in table.BY_NAME:
        raise UsageError(f"amx: unknown command {name}{suggestion(name, [*table.BY_NAME, *table.OWN])}")
    return table.BY_NAME[name]


def suggestion(word: str, known: Iterable[str], otherwise: str = "; `amx --help` lists all") -> str:
    """Return what may have been meant, as the end of a message."""
    near = difflib.get_close_matches(word.replace("_", "-"), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else otherwise


def read(chosen: Command, argv: Sequence[str]) -> Run:
    """Return what the arguments of a command request; what follows `--` is for ansible-playbook. Raises UsageError."""
    own = list(argv)
    rest = own[own.index("--") + 1 :] if "--" in own else []
    own = own[: len(own) - len(rest) - 1] if "--" in own else own
    parsed, others = _parser(chosen).parse_known_args(_with_values(chosen, own))
    given: dict[str, Any] = vars(parsed)
    unknown = [word for word in others if word.startswith("-") and word != "-"]
    if unknown:
        word = unknown[0].partition("=")[0]
        near = suggestion(word, switches(chosen), f"; `amx {chosen.name} --help` lists all")
        raise UsageError(f"amx {chosen.name}: unknown option {word}{near}")
    variables = _arguments(chosen, others, given)
    for option in chosen.options:
        if given.get(option.name) is not None:
            variables[option.variable] = _value(chosen, option, given[option.name])
    if override := _override(chosen, given):
        variables[table.OVERRIDE.variable] = override
    if given.get("query") or given.get("output"):
        variables[table.FORMAT.variable] = "json"
    passed = [word for option in ANSIBLE for word in _passed(option, given[option.names[-1]])]
    return Run(chosen, [*passed, *rest], variables)


def own_switches(chosen: Command) -> list[str]:
    """Return the names of the options of a command."""
    named = [option.switch for option in chosen.options if not option.opposite]
    named += [option.off for option in chosen.options if option.alone and option is not table.FORMAT]
    return [*named, table.HOSTS] if table.OVERRIDE in chosen.options else named


def switches(chosen: Command) -> list[str]:
    """Return the names of all options that a command takes, those of ansible-playbook included."""
    return [*own_switches(chosen), *(name for option in ANSIBLE for name in option.names), *HELP]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


def _parser(chosen: Command) -> _Parser:
    parser = _Parser(prog=f"amx {chosen.name}", add_help=False, allow_abbrev=False)
    for option in chosen.options:
        parser.add_argument(option.switch, dest=option.name, action="append" if option is table.OVERRIDE else "store")
        if option is table.OVERRIDE:
            parser.add_argument(table.HOSTS, dest="hosts")
    for passed in ANSIBLE:
        if passed.value:
            parser.add_argument(*passed.names, dest=passed.names[-1], action="append", default=[])
        else:
            parser.add_argument(*passed.names, dest=passed.names[-1], action="count", default=0)
    return parser


def _with_values(chosen: Command, words: Sequence[str]) -> list[str]:
    """Return the arguments with a value for each option that may stand without one, and without aliases.

    Such an option takes the next argument only where that is one of its values.
    """
    alone = {option.switch: option for option in chosen.options if option.alone}
    switches = {option.switch for option in chosen.options}
    aliases = {
        alias: switch for option in chosen.options for alias, switch in option.aliases.items() if alias not in switches
    }
    joined: list[str] = []
    for given in words:
        name, equals, value = given.partition("=")
        switch = aliases.get(name, name)
        word = switch + equals + value
        option = alone.get(joined[-1].removesuffix("=true")) if joined and joined[-1].endswith("=true") else None
        if option and _is_value(option, word):
            joined[-1] = f"{option.switch}={word}"
        elif word in alone:
            joined.append(f"{word}=true")
        elif switch.startswith("--no-") and (on := f"--{switch.removeprefix('--no-')}") in alone:
            if equals and value not in TRUTH:
                raise UsageError(f"amx {chosen.name}: {name}: {value} is not {' or '.join(TRUTH)}")
            joined.append(f"{on}={'true' if value == 'false' else 'false'}")
        else:
            joined.append(word)
    return joined


def _is_value(option: Option, word: str) -> bool:
    return word in (*TRUTH, *option.choices) or (option.value == "[N]" and word.isdecimal())


def _passed(option: Passed, given: Any) -> list[str]:
    if option.value:
        return [word for value in given for word in (option.names[0], value)]
    if option.names[0] == "-v":
        return [f"-{'v' * given}"] if given else []
    return [option.names[-1]] if given else []


def _arguments(chosen: Command, words: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of the arguments without a name."""
    expected, required = chosen.arguments, chosen.required
    if chosen.instead and given.get(chosen.instead):
        expected, required = expected[1:], required - 1
    if chosen.many:
        words = [",".join(words)] if words else []
    if len(words) < required:
        missing = expected[len(words)]
        raise UsageError(f"amx {chosen.name}: {missing.value} is missing: {missing.text}")
    if len(words) > len(expected):
        raise UsageError(f"amx {chosen.name}: unexpected argument {words[len(expected)]}; usage: amx {chosen.usage}")
    return {argument.variable: word for argument, word in zip(expected, words)}


def _value(chosen: Command, option: Option, value: Any) -> Any:
    if option is table.FORMAT:
        return "json" if value == "true" else "text"
    if option.alone and not _is_value(option, value):
        raise UsageError(f"amx {chosen.name}: {option.switch}: {value} is not {' or '.join(TRUTH)}")
    if option.structured and value.startswith(("{", "[")):
        return _value_of(chosen, option.switch, value)
    return value


def _override(chosen: Command, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the job file that are set for this run."""
    override: dict[str, Any] = {}
    texts = [*(given.get(table.OVERRIDE.name) or []), *([f"hosts={given['hosts']}"] if given.get("hosts") else [])]
    for text in texts:
        path, equals, value = text.partition("=")
        *parents, name = path.split(".")
        if not equals or not all((*parents, name)):
            raise UsageError(f"amx {chosen.name}: --set {text} is not {table.SET}, such as args.max_steps=50")
        inner = override
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise UsageError(f"amx {chosen.name}: --set {text}: {parent} is set to {inner}")
        wanted = _value_of(chosen, "--set", value)
        if inner.get(name, wanted) != wanted:
            raise UsageError(f"amx {chosen.name}: --set {text}: {path} is set to {inner[name]} already: leave one out")
        inner[name] = wanted
    return override


def _value_of(chosen: Command, switch: str, text: str) -> Any:
    """Return a value in YAML as what JSON can have."""
    import yaml

    try:
        return json.loads(json.dumps(_yaml.load(text), default=str))
    except yaml.YAMLError as error:
        detail = f": {_yaml.problem(error)}" if getattr(error, "is_yaml", False) else " is not YAML"
        raise UsageError(f"amx {chosen.name}: {switch}: {text}{detail}") from None
    except (TypeError, ValueError):
        raise UsageError(f"amx {chosen.name}: {switch}: {text} is not YAML") from None
