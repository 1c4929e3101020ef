# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: reset_report
short_description: Show what a reset removes, and refuse it while jobs run
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks the names of the requested pieces. With O(hosts), shows what each host has of them, and fails if a job runs.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  pieces:
    description:
      - The pieces to remove, a list or names separated by commas. C(all) is all but C(results) and C(downloads).
        Empty shows all and removes nothing.
    type: raw
    default: ""
  hosts:
    description: By host, what M(amx.cluster.reset_info) returned.
    type: dict
    default: {}
  head:
    description: By host, the same of a head that this run is not about, whose jobs are checked, too.
    type: dict
    default: {}
  control:
    description: What M(amx.cluster.reset_info) returned for the downloads of the control node.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.reset_info
"""

EXAMPLES = r"""
- name: Check the pieces
  amx.cluster.reset_report:
    pieces: jobs,data
"""

RETURN = r"""
pieces:
  description: The pieces to remove.
  returned: success
  type: list
  elements: str
"""
