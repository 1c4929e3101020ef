# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_check
short_description: Check the request of a tuning
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks on the control node, without contacting a host, whether a job can be tuned as requested, and finds how
    far a tuning of it has come.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.requested
  - amx.cluster.tune
options:
  backend:
    description: The inventory's backend, for jobs that leave it open.
    type: str
    default: auto
  cores:
    description: The inventory's cores, for jobs that leave them open.
    type: raw
    default: {}
  write_to:
    description:
      - Whether the winner is to be written to the job file, or to C(group_vars/cluster.yml) of the inventory, which
        must be there then; the job must leave open what is tuned.
    type: str
    choices: [job, inventory]
    default: job
seealso:
  - module: amx.cluster.tune_step
"""

EXAMPLES = r"""
- name: Check the job and the request
  amx.cluster.tune_check:
    file: jobs/demo.yml
    hosts: [node0, node1]
    results: results
"""

RETURN = r"""
job:
  description: The name of the job.
  type: str
  returned: success
path:
  description: The path of C(tune.json) on the control node.
  type: str
  returned: success
hosts:
  description: The hosts of the job.
  type: list
  elements: str
  returned: success
made:
  description: How many trials have been made.
  type: int
  returned: success
ended:
  description: Whether the tuning has ended.
  type: bool
  returned: success
interrupted:
  description: The name of the trial that was started and whose end was not recorded. It may still run.
  type: list
  elements: str
  returned: success
backends:
  description: The backends that the job can be tried with, its own first, for each backend of a stack.
  type: dict
  returned: success
vary:
  description: The settings that are changed.
  type: list
  elements: str
  returned: success
default:
  description: The settings of cores of the job as it is.
  type: dict
  returned: success
"""
