# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor_report
short_description: Check the hosts of a cluster and show what is wrong
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Evaluates what tasks have gathered on the hosts of a cluster, and shows everything that is wrong. Fails if there is
    a finding of severity V(failure). Where a host has a fabric such as InfiniBand, shows the fabrics of all hosts.
  - Shows in a line on which hosts AMX can be used, and with a warning, the reason and what to do on which hosts it
    cannot although their CPU has it.
  - The checks are listed in C(docs/doctor.md).
  - This is an action that runs on the control node and contacts no host.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
  - amx.cluster.document
options:
  results:
    description:
      - The registered results of the tasks that gathered facts, by host, the head first. Those of a host are C(facts)
        (M(ansible.builtin.setup)), C(info) (M(amx.cluster.host_info)), C(sudo) (any task that uses sudo), C(listener)
        (M(amx.cluster.peer_listener)) and C(peers) (M(amx.cluster.peer_info)); none of a task that did not run.
    type: dict
    required: true
  wanted:
    description: What the cluster has to meet.
    type: dict
    required: true
    suboptions:
      network:
        description: The cluster network as a CIDR. Empty for the network of the default route.
        type: str
        default: ""
      require:
        description: The instruction set that every host must be able to use.
        type: str
        choices: [amx, avx512, none]
        default: none
      fabric:
        description: The variable C(cluster_fabric) of the inventory.
        type: str
        choices: [auto, tcp, psm3, mlx, efa, verbs, psm2]
        default: auto
      unknown_os:
        description: The variable C(cluster_unknown_os) of the inventory.
        type: str
        choices: [refuse, allow]
        default: refuse
      become:
        description: Whether roles may use sudo.
        type: bool
        required: true
      full:
        description: Whether checks between hosts and of the installed software are made.
        type: bool
        required: true
      free_gib:
        description: Free disk space in GiB that is required until the stack is installed.
        type: float
        required: true
      job_free_gib:
        description: Free disk space in GiB that is required afterwards, for jobs.
        type: float
        required: true
      memory_gib:
        description: Free memory in GiB that is required.
        type: float
        required: true
      shm_gib:
        description: Size of C(/dev/shm) in GiB that is required.
        type: float
        required: true
      clock_seconds:
        description: Seconds that clocks may differ.
        type: float
        required: true
  format:
    description:
      - V(table) shows a table of all findings and a summary.
      - V(json) shows the same, and the facts about AMX, as one line of JSON.
      - V(failures) shows the failures only.
    type: str
    choices: [table, json, failures]
    default: table
seealso:
  - module: amx.cluster.host_info
  - module: amx.cluster.peer_info
"""

EXAMPLES = r"""
- name: Show what is wrong with the cluster
  amx.cluster.doctor_report:
    results: "{{ dict(hosts | zip(query('amx.cluster.host_values', hosts, values=registered))) }}"
    wanted:
      become: true
      full: false
      free_gib: 6
      job_free_gib: 1
      memory_gib: 2
      shm_gib: 0.5
      clock_seconds: 1
  vars:
    hosts: "{{ groups | amx.cluster.host_order }}"
    registered: {facts: gathered_facts, info: host_info}
  run_once: true
"""

RETURN = r"""
findings:
  description: What is wrong, in the order of the hosts, failures first.
  returned: always
  type: list
  elements: dict
  contains:
    host:
      description: The host.
      type: str
      returned: success
    check:
      description: The name of the check, as in C(docs/doctor.md).
      type: str
      returned: success
    severity:
      description: V(failure) or V(warning).
      type: str
      returned: success
    found:
      description: What was found.
      type: str
      returned: success
    advice:
      description: What to do.
      type: str
      returned: success
amx:
  description:
    - Hosts with the same facts about AMX together, those first that cannot use the AMX of their CPU. Each entry also
      has what M(amx.cluster.amx_info) returns.
  returned: always
  type: list
  elements: dict
  contains:
    hosts:
      description: The names of the hosts.
      type: list
      elements: str
      returned: success
    lost:
      description: Whether the CPU of these hosts has AMX that programs cannot use.
      type: bool
      returned: success
summary:
  description: The number of checks, hosts, failures and warnings, in a line.
  returned: always
  type: str
  sample: "28 checks on 3 hosts: no failures, 1 warning"
"""
