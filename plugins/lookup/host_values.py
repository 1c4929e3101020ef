# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: host_values
short_description: Collect the same variables of several hosts, null where a host does not have one
extends_documentation_fragment: amx.cluster.internal
options:
  _terms: {type: list, elements: raw, required: true, description: "Names of hosts, or lists of them"}
  values: {type: dict, required: true, description: The variable of each key. Dots lead into dictionaries}
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
