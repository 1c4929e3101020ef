# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_check
short_description: Check the groups of the inventory
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Fails unless the group C(cluster) has the children C(head), with exactly one host, and C(workers). Every error is
    reported at once.
  - This is an action that runs on the control node and contacts no host.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  groups:
    description: The groups of the inventory, as the variable C(groups) has them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Check the inventory
  amx.cluster.inventory_check:
    groups: "{{ groups }}"
"""

RETURN = r"""
errors:
  description: What is wrong with the inventory.
  returned: always
  type: list
  elements: str
"""
