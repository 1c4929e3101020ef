# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: sweep_step
short_description: Record a run of a sweep and choose the next one
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Records in C(sweep.json) on the control node what came of a run, and all that follows from it, and returns the next
    run. It fails when the first run of a sweep failed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.not_idempotent_module
  - amx.cluster.requested
  - amx.cluster.sweep
options:
  tried:
    description: What the entry point C(trial) of the role amx.cluster.job has set of the last run. Empty begins.
    type: dict
    default: {}
  cpu:
    description: The model name of the head's CPU.
    type: str
    default: ""
  network:
    description:
      - The path of C(network.json) on the control node, for the nominal speed of the network. It may be missing.
    type: path
seealso:
  - module: amx.cluster.sweep_check
  - module: amx.cluster.sweep_report
"""

EXAMPLES = r"""
- name: Choose the first run
  amx.cluster.sweep_step:
    file: jobs/demo.yml
    hosts: [node0, node1]
    results: results
  register: next_run
"""

RETURN = r"""
run:
  description: The next run, as C(sweep.json) has it; empty where none is left.
  type: dict
  returned: success
trial:
  description: How the job is turned into that run, see the option C(derive) of M(amx.cluster.job_read).
  type: dict
  returned: success
"""
