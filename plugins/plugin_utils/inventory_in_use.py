# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory with which this run of ansible-playbook was started, for what is shown on the control node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


def option(variables: Mapping[str, Any]) -> str:
    """Return -i and its value for each inventory in use; empty where it is the default one.

    variables: those of a task, of which ansible_inventory_sources is read.
    """
    sources = [str(source) for source in variables.get("ansible_inventory_sources") or []]
    defaults = [str(source) for source in constants.DEFAULT_HOST_LIST]
    return inventory.option(sources, defaults, Path.cwd())


def commands(text: str, variables: Mapping[str, Any] | None) -> str:
    """Return a text in which each playbook of the collection that it names is the command that runs it."""
    return inventory.commands(text, option(variables or {}))
