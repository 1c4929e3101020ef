# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: show
short_description: Print a text to the terminal
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints a text to the terminal with its own lines and colours, where M(ansible.builtin.debug) prints it as YAML.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  text:
    description: The text.
    type: str
    required: true
  data:
    description: The data that O(format=json) prints instead of the text.
    type: raw
seealso:
  - module: ansible.builtin.debug
"""

EXAMPLES = r"""
- name: Show the plan
  amx.cluster.show:
    text: "{{ plan | amx.cluster.plan_text }}"
"""

RETURN = r""" # """
