# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: measurement_next
short_description: Record a run of a measurement and choose the next one
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Records on the control node what came of a run of a measurement, and all that follows from it, and returns the next
    run. It fails when the measurement cannot go on after it.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.not_idempotent_module
options:
  measurement:
    description: What M(amx.cluster.measurement_check) has returned of this name.
    type: dict
    required: true
  tried:
    description: What the entry point C(trial) of the role amx.cluster.job has set of the last run. Empty begins.
    type: dict
    default: {}
  found:
    description:
      - What each host has found, by its name - what M(amx.cluster.core_candidates_info) or
        M(amx.cluster.core_instances_info) has returned there when a measurement begins, and what
        M(amx.cluster.infer_results_info) has returned after a run.
    type: dict
    default: {}
  head:
    description:
      - What is known of the head, the model of its C(cpu), the name of its C(stack), and of C(models) by name C(error),
        why it cannot be had, C(config), its C(config.json), and C(job), the C(job.json) of the job that trained it.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.measurement_check
  - module: amx.cluster.measurement_report
"""

EXAMPLES = r"""
- name: Record the previous run and choose the next one
  amx.cluster.measurement_next:
    measurement: "{{ checked.measurement }}"
    tried: "{{ __job_tried }}"
"""

RETURN = r"""
run:
  description: The next run, as the file of the measurement has it; empty where none is left.
  type: dict
  returned: success
trial:
  description: How the job is turned into that run, see the option C(derive) of M(amx.cluster.job_read).
  type: dict
  returned: success
"""
