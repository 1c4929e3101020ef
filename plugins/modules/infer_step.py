# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: infer_step
short_description: Record a trial of an inference benchmark and choose the next one
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Records in C(inference.json) on the control node what came of a trial, and returns the next one. At the end it also
    writes the recommended setting of each model, C(recommended-MODEL.yml).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.not_idempotent_module
  - amx.cluster.requested
  - amx.cluster.infer
options:
  instances:
    description: What M(amx.cluster.core_instances_info) has returned on each host, by its name.
    type: dict
    default: {}
  provided:
    description:
      - By model, C(error), why it cannot be had, C(config), its C(config.json), and C(job), the C(job.json) of the job
        that trained it; both as the module slurp returns them.
    type: dict
    default: {}
  cpu:
    description: The model of the head's CPU.
    type: str
    default: ""
  stack:
    description: The name of the stack.
    type: str
    default: ""
  tried:
    description: What the entry point C(trial) of the role amx.cluster.job has set of the last trial. Empty begins.
    type: dict
    default: {}
  found:
    description: What M(amx.cluster.infer_results_info) has returned on each host after it, by its name.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.infer_check
  - module: amx.cluster.infer_report
"""

EXAMPLES = r"""
- name: Record the previous trial and choose the next one
  amx.cluster.infer_step:
    file: jobs/inference.yml
    hosts: [node0, node1]
    results: results
    prefix: /opt/amx-cluster
    tried: "{{ __job_tried }}"
"""

RETURN = r"""
run:
  description: The next trial, as C(inference.json) will have it; empty where none is left.
  type: dict
  returned: success
trial:
  description: How the job is turned into that trial, see the option C(derive) of M(amx.cluster.job_read).
  type: dict
  returned: success
"""
