# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: host_values
short_description: Collect variables of several hosts
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the same variables, facts or registered results of several hosts, one dictionary a host.
  - A host for which a variable is not defined, because it failed or skipped a task, gets none for it. With
    C(map('extract', hostvars)) it would fail the task.
options:
  _terms:
    description: Names of hosts, or lists of them.
    type: list
    elements: raw
    required: true
  values:
    description:
      - The variable of each key. Dots lead into dictionaries.
      - The name of the host itself is C(inventory_hostname).
    type: dict
    required: true
seealso:
  - plugin: amx.cluster.host_order
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the address of every host on the cluster network
  ansible.builtin.debug:
    msg: "{{ query('amx.cluster.host_values', groups['cluster'], values=variables) }}"
  vars:
    variables:
      host: inventory_hostname
      address: preflight_interface.address
"""

RETURN = r"""
_raw:
  description: A dictionary for each host, in the order of the terms, with the keys of O(values).
  type: list
  elements: dict
  sample:
    - {host: node0, address: 10.0.0.5}
    - {host: node1, address: null}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


class LookupModule(LookupBase):
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        hosts = self._flatten(terms)
        unknown = [str(host) for host in hosts if host not in variables["hostvars"]]
        if unknown:
            raise AnsibleLookupError(f"not in the inventory: {', '.join(unknown)}")
        return [inventory.values(variables["hostvars"][host], self.get_option("values")) for host in hosts]
