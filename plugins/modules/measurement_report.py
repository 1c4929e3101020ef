# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: measurement_report
short_description: Show a measurement
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints what came of a sweep, a tuning or an inference benchmark as tables, or as a JSON document. Applies the winner
    of a tuning where that is requested. Fails where nothing at all was measured.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.document
options:
  measurement:
    description: What M(amx.cluster.measurement_check) has returned of this name.
    type: dict
    required: true
seealso:
  - module: amx.cluster.measurement_next
"""

EXAMPLES = r"""
- name: Show the measurement
  amx.cluster.measurement_report:
    measurement: "{{ checked.measurement }}"
"""

RETURN = r""" # """
