# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: host_order
short_description: List the hosts of the cluster, the head first
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the hosts of an inventory in the order of the hostfile, which is the head, then the workers as the inventory
    lists them. A job on n hosts uses the first n.
options:
  _input:
    description: The groups of the inventory, as the variable C(groups) has them.
    type: dict
    required: true
seealso:
  - module: amx.cluster.core_allocation
"""

EXAMPLES = r"""
- name: Show the hosts of the cluster, the head first
  ansible.builtin.debug:
    msg: "{{ groups | amx.cluster.host_order }}"
"""

RETURN = r"""
_value:
  description: The names of the hosts.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


class FilterModule:
    """The filter host_order."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_order": inventory.host_order}
