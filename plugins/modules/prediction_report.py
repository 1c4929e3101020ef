# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_report
short_description: Verify and show the output of a prediction
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Verifies what was fetched to the control node by its SHA-256, completes C(prediction.json), and shows what came of
    the prediction.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.document
options:
  directory:
    description: The directory with the results of the prediction.
    type: path
    required: true
  summary:
    description: What M(amx.cluster.prediction_collect) returned.
    type: dict
    required: true
  outcome:
    description: The content of the job's C(results.json).
    type: dict
    default: {}
  output_file:
    description: The file to which the output is copied besides.
    type: str
    default: ""
seealso:
  - module: amx.cluster.prediction_collect
"""

EXAMPLES = r"""
- name: Show the prediction
  amx.cluster.prediction_report:
    directory: results/demo-predict
    summary: "{{ collected.summary }}"
"""

RETURN = r"""
path:
  description: The path of C(prediction.json).
  type: str
  returned: success
output:
  description: The path of the output.
  type: str
  returned: success
"""
