# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: measurement_check
short_description: Check the request of a measurement
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Checks on the control node, without contacting a host, whether a job can be measured as requested, and finds how far
    a measurement of it has come. It fails with everything that is wrong with the request, and with what differs when
    there is already a measurement of the job that was requested otherwise. It writes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.measurement
options:
  format:
    description: Whether how far it has come is shown, with V(text).
    type: str
    choices: [text, json]
    default: text
seealso:
  - module: amx.cluster.measurement_next
  - module: amx.cluster.measurement_report
"""

EXAMPLES = r"""
- name: Check the job and the request
  amx.cluster.measurement_check:
    kind: sweep
    request: {job: jobs/demo.yml, repeats: 5}
    hosts: [node0, node1]
    results: results
"""

RETURN = r"""
measurement:
  description: The options of the task, with all that was requested on the command line, for the other actions.
  type: dict
  returned: success
job:
  description: The name of the job.
  type: str
  returned: success
path:
  description: The path of C(sweep.json), C(tune.json) or C(inference.json) on the control node.
  type: str
  returned: success
hosts:
  description: The hosts of the measurement.
  type: list
  elements: str
  returned: success
ended:
  description: Whether nothing is left to do.
  type: bool
  returned: success
interrupted:
  description: The names of the runs that were started and whose end was not recorded. They may still run.
  type: list
  elements: str
  returned: success
questions:
  description: What hosts are to be asked before the first run.
  type: dict
  returned: success
"""
