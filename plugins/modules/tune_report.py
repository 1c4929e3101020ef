# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_report
short_description: Show a tuning
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints the trials of a tuning as a table with the diff that makes the winner, or as a JSON
    document. Applies the diff where that is requested.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.document
options:
  path:
    description: The path of C(tune.json) on the control node.
    type: path
    required: true
  file:
    description: The job file, on the control node.
    type: path
    required: true
  override:
    description: A mapping of fields that win over the file's, as the tuning had it.
    type: raw
  write:
    description: Whether the diff is applied. Nothing is written where nothing was faster.
    type: bool
    default: false
  write_to:
    description:
      - Whether the diff is one of the job file, or one of C(group_vars/cluster.yml) of the inventory, with
        C(cluster_cores) and C(cluster_backend) for all jobs that leave these open. Arguments that keep the global batch
        are changed in the job file in both cases.
    type: str
    choices: [job, inventory]
    default: job
seealso:
  - module: amx.cluster.tune_step
"""

EXAMPLES = r"""
- name: Show the tuning
  amx.cluster.tune_report:
    path: results/demo-tune/tune.json
    file: jobs/demo.yml
"""

RETURN = r""" # """
