# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_check
short_description: Check the inventory and show its hosts
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Fails unless the group C(cluster) has the children C(head), with exactly one host, and C(workers).
  - Fails if every task would use sudo, because jobs would then run as root, and if a directory has a name that lists of
    paths such as C(LD_PRELOAD) cannot have. Fails for unknown values of variables. Every error is reported at once.
  - Shows which hosts the playbook is about, and the inventory that has them.
  - This is an action that runs on the control node and contacts no host.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  groups:
    description: The groups of the inventory, as the variable C(groups) has them.
    type: dict
    required: true
  hosts:
    description: Variables of the hosts that are checked.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: The name of the host.
        type: str
        required: true
      become:
        description: The variable C(ansible_become) of the host, if it is set.
        type: bool
      prefix:
        description: The variable C(cluster_prefix) of the host, if it is set.
        type: str
      cache:
        description: The variable C(cluster_cache) of the host, if it is set.
        type: str
      fabric:
        description: The variable C(cluster_fabric) of the host, if it is set.
        type: str
      kubernetes:
        description: The variable C(cluster_kubernetes) of the host, if it is set.
        type: raw
seealso:
  - module: amx.cluster.doctor_report
"""

EXAMPLES = r"""
- name: Check the inventory
  amx.cluster.inventory_check:
    groups: "{{ groups }}"
    hosts: "{{ query('amx.cluster.host_values', groups['cluster'], values=variables) }}"
  vars:
    variables:
      host: inventory_hostname
      become: ansible_become
      prefix: cluster_prefix
      cache: cluster_cache
      fabric: cluster_fabric
      kubernetes: cluster_kubernetes
"""

RETURN = r"""
errors:
  description: What is wrong with the inventory.
  returned: always
  type: list
  elements: str
"""
