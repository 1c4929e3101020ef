# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: infer_check
short_description: Check the request of an inference benchmark
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks on the control node, without contacting a host, whether inference can be measured as requested, and finds how
    far a benchmark of the job has come.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.requested
  - amx.cluster.infer
seealso:
  - module: amx.cluster.infer_step
"""

EXAMPLES = r"""
- name: Check the job and the request
  amx.cluster.infer_check:
    file: jobs/inference.yml
    hosts: [node0, node1]
    results: results
    prefix: /opt/amx-cluster
"""

RETURN = r"""
job:
  description: The name of the job.
  type: str
  returned: success
path:
  description: The path of C(inference.json) on the control node.
  type: str
  returned: success
hosts:
  description: The hosts of the job.
  type: list
  elements: str
  returned: success
models:
  description: The models, each with its C(source) and C(entry), the name under which it is provided, and its C(task).
  type: dict
  returned: success
measured:
  description: How many cells have been measured.
  type: int
  returned: success
ended:
  description: Whether nothing is left to measure.
  type: bool
  returned: success
interrupted:
  description: The name of the trial that was started and whose end was not recorded. It may still run.
  type: list
  elements: str
  returned: success
instances_per_node:
  description: The numbers of instances that are requested, see M(amx.cluster.core_instances_info).
  type: list
  elements: raw
  returned: success
threads_per_instance:
  description: The threads of an instance that are requested.
  type: list
  elements: int
  returned: success
reserved_cores:
  description: The field of the job.
  type: raw
  returned: success
threads_per_core:
  description: The field of the job.
  type: raw
  returned: success
"""
