# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_plan
short_description: Make the job of a prediction
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Compares the request with the model and the data, and with the prediction of this name that there is already. Writes
    its job file and C(prediction.json) into its results on the control node.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.not_idempotent_module
  - amx.cluster.prediction
options:
  found:
    description: What M(amx.cluster.prediction_model) returned. Empty for a model on the control node.
    type: dict
    default: {}
  described:
    description: What the program of the ranks said of data on the head.
    type: dict
    default: {}
  described_sha256:
    description: The SHA-256 of data on the head.
    type: str
    default: ""
  described_directory:
    description: The directory on the head with nothing but these data.
    type: str
    default: ""
  status:
    description: What M(amx.cluster.job_info) returned of the job of this name on the head.
    type: dict
    default: {}
  job_json:
    description: The content of its C(job.json), as Base64.
    type: str
    default: ""
seealso:
  - module: amx.cluster.prediction_check
"""

EXAMPLES = r"""
- name: Make the job of the prediction
  amx.cluster.prediction_plan:
    job: demo
    data: rows.csv
    hosts: [node0, node1]
    results: results
    program: roles/infer/files/inference
    found: "{{ found }}"
"""

RETURN = r"""
how:
  description:
    - V(start) when the job is to be started, V(follow) when it runs, and V(collect) when it has ended and its output
      was not fetched.
  type: str
  returned: success
file:
  description: The path of the job file.
  type: str
  returned: success
digest:
  description: What chunks of this prediction are marked with.
  type: str
  returned: success
request:
  description: What each rank is set to.
  type: dict
  returned: success
"""
