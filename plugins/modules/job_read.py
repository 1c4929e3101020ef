# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: job_read
short_description: Read and check a job file
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads a job file on the control node, and fails with every error in it.
  - With O(hosts) it also chooses the hosts that the job runs on, and fails when the cluster does not have them.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  file:
    description: The job file, on the control node. A relative path is taken from where C(ansible-playbook) was started.
    type: str
    default: ""
  override:
    description: A mapping of fields that win over the file's. A mapping in it is merged with the file's.
    type: raw
  hosts:
    description: The hosts that jobs may use, the head first.
    type: list
    elements: str
    default: []
  purpose:
    description: What the job is run for. A job without hosts of the inventory can only be trained.
    type: str
    choices: [train, predict, trial, measure, verify, plan]
    default: train
  settings:
    description:
      - What the run is set to besides its file, C(head_address), C(head_interface), C(world_timeout),
        C(shared_directory), C(user), C(since), and C(backend) and C(cores), those of jobs which leave them open.
    type: dict
    default: {}
  verify_with:
    description: A script that verifies the plan of the job; the job is turned into a verification that runs the script.
    type: path
  derive:
    description:
      - If set, the job is turned into a short trial of itself under the name NAME-SUFFIX. C(suffix), C(steps),
        C(warmup_steps), C(measure), and C(fields), the fields of the job file that it changes.
    type: dict
    default: {}
  measure_with:
    description:
      - A script of the collection that measures with the plan of the job; the job is turned into a measurement that
        runs the script.
    type: dict
    suboptions:
      name:
        description: The name of the measurement.
        type: str
        required: true
      kind:
        description: Whether the ranks of the script form a group of torch.distributed.
        type: str
        choices: [torch, ranks]
        required: true
      script:
        description: The script, on the control node.
        type: path
        required: true
      args:
        description: The arguments of the script.
        type: dict
        default: {}
seealso:
  - module: amx.cluster.job_plan
  - plugin: amx.cluster.job
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Check the job file
  amx.cluster.job_read:
    file: jobs/demo.yml

- name: Read the job
  amx.cluster.job_read:
    file: jobs/demo.yml
    hosts: [node0, node1]
  register: demo
"""

RETURN = r"""
job:
  description: The fields of the job, defaults filled in, paths absolute. Values of secrets are V(***).
  type: dict
  returned: success
purpose:
  description: What follows from the purpose, such as C(changes), whether what the run leaves counts as a change.
  type: dict
  returned: success
run:
  description: C(job) with its C(settings), as M(amx.cluster.job_plan) takes it.
  type: dict
  returned: when O(hosts) is given
hosts:
  description: The hosts that ranks run on, in the order of the hostfile. Empty as RV(members).
  type: list
  elements: str
  returned: success
members:
  description: The hosts that take part in the run; the head does in any case. Empty without O(hosts), and where the
    launcher starts ranks elsewhere.
  type: list
  elements: str
  returned: success
backends:
  description: The job's backend with a stack of each backend.
  type: dict
  returned: when there are RV(hosts)
cores:
  description: The job's request for the cores of a node, as M(amx.cluster.core_allocation) takes it.
  type: dict
  returned: when there are RV(hosts)
sources:
  description: For C(models), C(data) and C(metrics), the source of each entry of the hosts' cache.
  type: dict
  returned: success
prepare:
  description: The name of the script that prepares the data and its arguments; empty without one.
  type: list
  elements: str
  returned: success
"""
