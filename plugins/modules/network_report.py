# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: network_report
short_description: Report a measured network
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Names hosts and pairs of hosts that are slow beside the others or beside their links, and predicts what the exchange
    of a model's gradients costs. Writes C(network.json).
  - Without O(measured), checks the options only.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  measured:
    description: C(output/measured.json) of the job that measured.
    type: dict
    default: {}
  imb_log:
    description: What IMB-MPI1 printed.
    type: str
    default: ""
  hosts:
    description: The hosts in the order of the hostfile, each C(host), C(address), C(interface) and C(link_mbit).
    type: list
    elements: dict
    default: []
  job:
    description: The name of the job whose plan was used, empty without one.
    type: str
    default: ""
  models:
    description: The models of that job, as M(amx.cluster.job_read) returns them.
    type: dict
    default: {}
  gradient_compression:
    description: That of the job.
    type: str
    default: none
  largest:
    description: The size of the largest tensor, from C(4KB) to C(256MB). By default C(256MB).
    type: str
    default: ""
  minutes:
    description: How long measuring may take, without the start of the ranks. By default 1.
    type: str
    default: ""
  model:
    description:
      - The model whose communication is predicted, a directory with C(*.safetensors) or C(config.json) on the control
        node, one of O(models), or the name of a well-known one.
    type: str
    default: ""
  parameters:
    description: Its number of parameters instead, such as C(110M).
    type: str
    default: ""
  step_compute_seconds:
    description: The time of a step of that model on one host without communication, for the share of communication.
    type: str
    default: ""
  started:
    description: When the measurement began, in ISO 8601.
    type: str
    default: ""
  ended:
    description: When it ended.
    type: str
    default: ""
  to:
    description: The file C(network.json) on the control node.
    type: path
seealso:
  - module: amx.cluster.job_read
"""

EXAMPLES = r"""
- name: Check the options of the measurement
  amx.cluster.network_report:
    largest: 64MB
    parameters: 110M
"""

RETURN = r"""
largest:
  description: The size of the largest tensor in bytes.
  type: int
  returned: success
seconds:
  description: How long measuring may take.
  type: float
  returned: success
network:
  description: The content of C(network.json).
  type: dict
  returned: when O(measured) is given
"""
