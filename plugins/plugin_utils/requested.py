# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are read from the command line alone: their names, which begin with amx_, and their previous names."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml
from ansible import context
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.known import LAUNCHERS, SLURM
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm.fields import is_set
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.table import (
    BY_OPTION,
    NAMES,
    OVERRIDE,
    PREFIX,
    STRUCTURED,
)

display = Display()

# The version without the names that have no prefix.
REMOVED_IN = "2.0.0"


def plain(value: object) -> Any:
    """Return a value of Ansible's as plain data, which can be merged and copied."""
    return json.loads(json.dumps(value))


def given(loader: Any) -> dict[str, Any]:
    """Return the variables that a user has set with -e, before templates in them are evaluated."""
    return dict(load_extra_vars(loader)) if context.CLIARGS else {}


def refuse_slurm(hosts: Sequence[str], variables: Mapping[str, Any]) -> None:
    """Raise ValueError where the inventory's head is a login host of Slurm, for what needs ranks on its hosts.

    hosts: of the inventory, the head first. variables: of the task.
    """
    head = variables.get("hostvars", {}).get(hosts[0], {}) if hosts else {}
    if is_set(head.get("cluster_slurm")):
        raise ValueError(LAUNCHERS[SLURM].elsewhere())


def variable(name: str, given: Mapping[str, Any]) -> str:
    """Return which variable of the command line has an option: with the prefix, or without; nothing where none has.

    name: without the prefix. given: the variables of the command line. Raises ValueError where both are set and differ.
    """
    new = PREFIX + name
    if new in given and name in given and given[new] != given[name]:
        raise ValueError(f"{new} and {name}, its previous name, are both set, and differ: set {new} alone")
    return new if new in given else name if name in given else ""


def deprecation(given: Iterable[str]) -> str:
    """Return what is shown where a user's variables have previous names; nothing where none has."""
    old = [name for name in given if name in NAMES]
    if not old:
        return ""
    names, pronoun = ("the variables", "them") if old[1:] else ("the variable", "it")
    new = ", ".join(PREFIX + name for name in old)
    return f"{names} {', '.join(old)} of the command line: name {pronoun} {new}, or use the command `amx`."


def read(loader: Any, name: str, variables: Mapping[str, Any], template: Callable[[Any], Any], *default: Any) -> Any:
    """Return the value of an option that a user has set with -e; else `default`, or the option's. Raises ValueError.

    name: without the prefix. variables: those of the task or template, among which are those of the command line.
    template: evaluates templates in a value.
    """
    extra = given(loader)
    key = variable(name, extra)
    if not key:
        return default[0] if default else copy.copy(BY_OPTION[name].default)
    if key in NAMES:
        # Ansible shows the same text once in a run.
        display.deprecated(deprecation(extra), version=REMOVED_IN, collection_name="amx.cluster")
    # An extra variable wins over every other one of its name.
    return structured(name, template(variables[key]))


def structured(name: str, value: Any) -> Any:
    """Return the value of an option that may be a mapping or a list, where it is written as text. Raises ValueError.

    Answers of a survey in AWX are text, as is VALUE of -e NAME=VALUE. name: without the prefix.
    """
    text = value.lstrip() if isinstance(value, str) else ""
    if not text or name not in STRUCTURED or (name != OVERRIDE.name and not text.startswith(("{", "["))):
        return value
    try:
        return plain(_yaml.load(text))
    except (yaml.YAMLError, TypeError) as error:
        # Without the text and what the parser says, which may quote a secret; so neither has the traceback.
        detail = f": {_yaml.problem(error)}" if getattr(error, "is_yaml", False) else " is not YAML"
        raise ValueError(f"{PREFIX}{name}{detail}: write it as {{args: {{max_steps: 50}}}}") from None


def check(loader: Any) -> None:
    """Raise ValueError where a user has set an option by both of its names, or nearly by its name with the prefix."""
    extra = given(loader)
    for name in NAMES:
        variable(name, extra)
    problem = misspelt([name for name in extra if name.startswith(PREFIX)], sorted(NAMES))
    if problem:
        raise ValueError(problem)


def refuse_misspelt(loader: Any, options: Sequence[str]) -> None:
    """Raise ValueError where a variable that a user has set with -e nearly is one of the options.

    options: their names without the prefix.
    """
    problem = misspelt(list(given(loader)), options)
    if problem:
        raise ValueError(problem)


def misspelt(names: Sequence[str], options: Sequence[str]) -> str:
    """Return what is wrong with the names of a user's variables: one that nearly is an option is a mistake."""
    for name in names:
        bare = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(bare, options, n=1, cutoff=0.8)
        if near and bare not in options:
            return f"{name}: unknown option; did you mean {PREFIX if near[0] in NAMES else ''}{near[0]}?"
    return ""
