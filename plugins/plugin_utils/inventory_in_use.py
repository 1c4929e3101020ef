# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that a message names, as commands that work as they stand: with the inventory in use, and installed, too.

Messages name playbooks `site.yml` and `playbooks/NAME.yml`, and options `-e NAME=VALUE`. What a user sees goes through
`commands` on the control node: errors of actions (control_node_action), errors of modules that recommend a playbook
(module_action, named by meta/runtime.yml), reports (screen.show), and messages of roles (the filter of this name).
"""

from __future__ import annotations

import os
from pathlib import Path

from ansible import constants, context
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import launch, messages

COLLECTION = Path(__file__).resolve().parents[2]


def option() -> str:
    """Return -i and its value for each inventory in use; empty where it is the default one."""
    sources = [str(source) for source in context.CLIARGS.get("inventory") or []]
    defaults = [str(source) for source in constants.DEFAULT_HOST_LIST]
    return inventory.option(sources, defaults, Path.cwd())


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
