# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: sweep_check
short_description: Check the request of a sweep
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks on the control node which runs of a job on several numbers of hosts are requested, and which are left.
    It fails with everything that is wrong with the request, and with what differs when there is already a sweep of
    the job that was requested otherwise. It writes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.requested
  - amx.cluster.sweep
seealso:
  - module: amx.cluster.sweep_step
"""

EXAMPLES = r"""
- name: Check the job and the request
  amx.cluster.sweep_check:
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
  description: The path of C(sweep.json) on the control node.
  type: str
  returned: success
hosts:
  description: The hosts of the sweep.
  type: list
  elements: str
  returned: success
left:
  description: The names of the runs that are left.
  type: list
  elements: str
  returned: success
made:
  description: How many runs have been made.
  type: int
  returned: success
interrupted:
  description: The names of the runs that were started and whose end was not recorded. They may still run.
  type: list
  elements: str
  returned: success
"""
