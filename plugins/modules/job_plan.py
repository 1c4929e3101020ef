# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: job_plan
short_description: Plan a job for its hosts
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Makes the plan of a job, once for all of its hosts, from what each of them has answered, and shows it.
  - Fails with the hosts and their reasons when a host cannot do its part, and when O(job_env) does not have a variable
    that the job requires.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  run:
    description: The run, as M(amx.cluster.job_read) returns it.
    type: dict
    required: true
  hosts:
    description: The hosts that ranks run on, in the order of the hostfile.
    type: list
    elements: str
    required: true
  answers:
    description:
      - By host, C(venv), the path of its virtual environment, C(allocation), what M(amx.cluster.core_allocation)
        returned, C(tcmalloc), the path of the allocator or empty, C(isa), C(amx) (the reason that
        M(amx.cluster.amx_info) returns), C(address), C(interface) and C(fabric), see M(amx.cluster.host_info).
    type: dict
    required: true
  stack:
    description: The stack in the virtual environment.
    type: dict
    required: true
  job_env:
    description: The variables that the job may take from the inventory. Their values are in nothing that is returned.
    type: raw
    default: {}
  fabric:
    description:
      - What ranks communicate over where the backend uses MPI. V(auto) takes the fastest fabric that all hosts have,
        else V(tcp). Fails for hosts without a fabric that is named.
    type: str
    choices: [auto, tcp, psm3, mlx, efa, verbs, psm2]
    default: auto
  tcmalloc:
    description: Whether ranks use tcmalloc. V(required) fails for hosts without it.
    type: str
    choices: [preferred, required, absent]
    default: preferred
  full:
    description:
      - Whether the plan is printed with the map of the cores and all environment variables. Otherwise they are printed
        with C(-v) only.
    type: bool
    default: true
seealso:
  - module: amx.cluster.job_read
  - module: amx.cluster.core_allocation
"""

EXAMPLES = r"""
- name: Plan the job
  amx.cluster.job_plan:
    run: "{{ demo.run }}"
    hosts: "{{ demo.hosts }}"
    answers: "{{ dict(demo.members | zip(demo.members | map('extract', hostvars, 'answer'))) }}"
    stack: "{{ venv.stack }}"
  run_once: true
"""

RETURN = r"""
plan:
  description: The plan, as C(plan.json) in the job directory has it.
  type: dict
  returned: success
drawings:
  description: Core maps as SVG documents by file name, one for the hosts whose map is the same.
  type: dict
  returned: success
"""
