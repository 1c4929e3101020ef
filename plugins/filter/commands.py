# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: commands
short_description: Write playbooks in a message as commands
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Replaces each playbook of the collection that a message names by the command that runs it with the inventory in use,
    so that a user can copy it.
options:
  _input:
    description: The message, in which a playbook is named C(site.yml) or C(playbooks/NAME.yml).
    type: str
    required: true
  sources:
    description: The inventory in use, as the variable C(ansible_inventory_sources) has it.
    type: list
    elements: str
    required: true
seealso:
  - module: amx.cluster.show
"""

EXAMPLES = r"""
- name: Fail with the command that helps
  ansible.builtin.fail:
    msg: "{{ 'Run site.yml.' | amx.cluster.commands(ansible_inventory_sources) }}"
"""

RETURN = r"""
_value:
  description: The message.
  type: str
  sample: Run ansible-playbook -i inventories/mine site.yml.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use


def commands(text: str, sources: Sequence[str]) -> str:
    """Return a text with commands in place of playbooks' names."""
    return inventory_in_use.commands(text, {"ansible_inventory_sources": sources})


class FilterModule:
    """The filter commands."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"commands": commands}
