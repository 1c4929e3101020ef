# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that a message names, as commands that work as they stand: with the inventory in use, and installed, too.

Messages name playbooks `site.yml` and `playbooks/NAME.yml`, and options `-e NAME=VALUE`. What a user sees goes through
`commands` on the control node: errors of actions (control_node_action), errors of modules that recommend a playbook
(module_action, named by meta/runtime.yml), reports (screen.show), and messages of roles (the filter of this name).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import yaml
from ansible import constants, context
from ansible.parsing.splitter import parse_kv
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import launch, messages, table

# Variables of a command that another command about the same job does not have, or has its own of.
OWN = ("job", "job_resume", "format", "query", "output")
PLAIN = re.compile(r"[\w./:@%+,=-]+")
COLLECTION = Path(__file__).resolve().parents[2]


def option() -> str:
    """Return -i and its value for each inventory in use; empty where it is the default one."""
    sources = [str(source) for source in context.CLIARGS.get("inventory") or []]
    defaults = [str(source) for source in constants.DEFAULT_HOST_LIST]
    return inventory.option(sources, defaults, Path.cwd())


def given() -> str:
    """Return the variables of this command as options -e, as messages name them, for a command about the same job.

    How Ansible logs in is left out.
    """
    words, files = [], []
    for raw in context.CLIARGS.get("extra_vars") or ():
        text = str(raw)
        if text.startswith("@"):
            files.append(f"-e {shlex.quote(text)}")
            continue
        variables = yaml.safe_load(text) if text.startswith("{") else parse_kv(text)
        for variable, value in dict(variables or {}).items():
            plain = variable.removeprefix(table.PREFIX)
            name = plain if plain in table.NAMES else variable
            if name in OWN or name.startswith("ansible_"):
                continue
            if isinstance(value, str) and PLAIN.fullmatch(value):
                words.append(f"-e {name}={value}")
            else:
                written = json.dumps(value, ensure_ascii=False).replace("'", "\\u0027")
                words.append(f"-e '{{{name}: {written}}}'")
    return " ".join([*words, *files])


def commands(text: str, inventory_option: str | None = None) -> str:
    """Return a text in which each playbook of the collection that it names is the command that runs it.

    It is a command of `amx` where that has started this playbook. Options have the names that the command takes.
    inventory_option: -i and the inventory that it is to use; by default those in use.
    """
    in_use = option() if inventory_option is None else inventory_option
    running = os.environ.get(launch.STARTED_BY)
    if running:
        return messages.for_amx(text, running, in_use)
    installed = "ansible_collections" in COLLECTION.parts and Path.cwd() != COLLECTION
    return messages.for_ansible(inventory.commands(text, in_use, installed))
