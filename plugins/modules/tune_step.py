# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_step
short_description: Record a trial of a tuning and choose the next one
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Records in C(tune.json) on the control node what came of a trial, and returns the next one. At the
    end it has the winner.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.not_idempotent_module
  - amx.cluster.requested
  - amx.cluster.tune
options:
  candidates:
    description:
      - What M(amx.cluster.core_candidates_info) has returned on each host, by its name, when a tuning begins or is
        continued.
    type: dict
    default: {}
  tried:
    description: What the entry point C(trial) of the role amx.cluster.job has set of the last trial. Empty begins.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.tune_check
  - module: amx.cluster.tune_report
"""

EXAMPLES = r"""
- name: Record the previous trial and choose the next one
  amx.cluster.tune_step:
    file: jobs/demo.yml
    hosts: [node0, node1]
    results: results
    tried: "{{ __job_tried }}"
"""

RETURN = r"""
run:
  description: The next trial, as C(tune.json) will have it; empty where none is left.
  type: dict
  returned: success
trial:
  description: How the job is turned into that trial, see the option C(derive) of M(amx.cluster.job_read).
  type: dict
  returned: success
"""
