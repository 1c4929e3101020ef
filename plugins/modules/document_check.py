# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: document_check
short_description: Check the options of machine-readable reports
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Fails if a report cannot be made with these options, for example because the query is not JMESPath, before anything
    else is done.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  format:
    description: Whether the report is text for a person, or a JSON document.
    type: str
    default: text
  query:
    description: A JMESPath expression that selects from the JSON document.
    type: str
    default: ""
  output:
    description: The file on the control node to which the JSON document is written.
    type: str
    default: ""
  reports:
    description: Whether the playbook has a report as JSON. V(false) refuses O(format=json).
    type: bool
seealso:
  - module: amx.cluster.show
"""

EXAMPLES = r"""
- name: Check the query before anything runs
  amx.cluster.document_check:
    format: json
    query: findings[].host
"""

RETURN = r""" # """
