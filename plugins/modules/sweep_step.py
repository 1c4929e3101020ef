# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: sweep_step
short_description: Record a run of a sweep and choose the next one
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Records in C(sweep.json) on the control node what came of a run, and all that follows from it, and returns the next
    run. It fails when the first run of a sweep failed.
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
options:
  file:
    description: The job file, on the control node. A relative path is taken from where C(ansible-playbook) was started.
    type: str
    default: ""
  override:
    description: A mapping of fields that win over the file's. A mapping in it is merged with the file's.
    type: raw
  hosts:
    description: The hosts that the sweep may use, the head first.
    type: list
    elements: str
    required: true
  results:
    description: The directory on the control node with results. The sweep is in C(JOB-scale/sweep.json) there.
    type: path
    required: true
  counts:
    description: Numbers of hosts, a list or text such as V(1,2,4). Empty is 1, 2, 4, ... and all.
    type: raw
    default: []
  repeats:
    description: How often the job is run on each number of hosts.
    type: raw
    default: 3
  steps:
    description: Steps of each run that are measured.
    type: raw
    default: 20
  warmup_steps:
    description: Steps of each run that come before, and are not measured.
    type: raw
    default: 5
  scaling:
    description: V(strong) is the same dataset on every number of hosts, V(weak) one that grows with them.
    type: str
    default: strong
  constant_global_batch:
    description: Whether the global batch stays that of one host.
    type: bool
    default: false
  again:
    description: Whether a sweep of this job that there is already is moved aside.
    type: bool
    default: false
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
