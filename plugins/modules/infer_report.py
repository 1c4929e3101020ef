# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: infer_report
short_description: Show an inference benchmark
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints a table for each model of an inference benchmark with the recommended setting and the command that uses it,
    or the JSON document. Fails where nothing at all was measured.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  path:
    description: The path of C(inference.json) on the control node.
    type: path
    required: true
seealso:
  - module: amx.cluster.infer_step
"""

EXAMPLES = r"""
- name: Show the benchmark
  amx.cluster.infer_report:
    path: results/inference-inference/inference.json
"""

RETURN = r""" # """
