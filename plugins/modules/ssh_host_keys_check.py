# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_host_keys_check
short_description: Compare the SSH host keys of hosts with those that are pinned
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Fails if a host shows no host key, or other keys than those that a previous run pinned. All such hosts are reported
    at once.
  - A key type that a host did not have before, or has no more, is no change. All keys replaced is one.
  - This is an action that runs on the control node and contacts no host.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  hosts:
    description: The hosts to compare.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: The name under which the keys of the host are pinned.
        type: str
        required: true
      facts:
        description: The facts of the host, with the subset C(ssh_pub_keys).
        type: dict
        required: true
      known_hosts:
        description:
          - The file in which this host has pinned the keys of all hosts, in Base64 as M(ansible.builtin.slurp) returns
            it. Not set if there is none.
        type: str
  accept_changed:
    description: Hosts whose keys have changed for a known reason, such as a new installation.
    type: list
    elements: str
    default: []
seealso:
  - module: amx.cluster.ssh_login_info
"""

EXAMPLES = r"""
- name: Fail if host keys have changed
  amx.cluster.ssh_host_keys_check:
    hosts: "{{ query('amx.cluster.host_values', groups['cluster'], values=variables) }}"
  vars:
    variables:
      host: inventory_hostname
      facts: ansible_facts
      known_hosts: pinned.content
  run_once: true
"""

RETURN = r"""
host_keys:
  description: The keys that each host shows, in Base64 by type, the best type first.
  returned: success
  type: dict
  sample: {node0: {ssh-ed25519: AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA}}
changed_hosts:
  description: The hosts whose keys have changed, each with the keys that are C(pinned) and C(shown).
  returned: always
  type: list
  elements: dict
"""
