# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: sweep_report
short_description: Show a sweep
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints a sweep as a table, or as a JSON document.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  path:
    description: The path of C(sweep.json) on the control node.
    type: path
    required: true
seealso:
  - module: amx.cluster.sweep_step
"""

EXAMPLES = r"""
- name: Show the sweep
  amx.cluster.sweep_report:
    path: results/demo-scale/sweep.json
"""

RETURN = r""" # """
