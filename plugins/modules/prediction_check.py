# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_check
short_description: Check the request of a prediction
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks on the control node, without contacting a host, whether rows can be predicted as requested.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.prediction
seealso:
  - module: amx.cluster.prediction_plan
"""

EXAMPLES = r"""
- name: Check the request
  amx.cluster.prediction_check:
    job: demo
    data: rows.csv
    hosts: [node0, node1]
    results: results
    program: roles/infer/files/inference
"""

RETURN = r"""
name:
  description: The name of the job of the prediction.
  type: str
  returned: success
trained_by:
  description: The name of the job that trained the model; empty for a directory.
  type: str
  returned: success
model:
  description: The directory with the model, absolute, or C(head:PATH); empty for a job.
  type: str
  returned: success
data:
  description: The file with the data, absolute, or C(head:PATH).
  type: str
  returned: success
hosts:
  description: The hosts of the prediction.
  type: list
  elements: str
  returned: success
directory:
  description: The directory of its results on the control node.
  type: str
  returned: success
"""
