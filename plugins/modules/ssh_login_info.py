#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_login_info
short_description: Find out on which hosts this host can log in by ssh
version_added: 0.1.0
author: The amx.cluster maintainers (@amx-cluster)
description:
  - Logs in from the managed host on each of the hosts, with no terminal, no password and no question, as mpirun does.
  - One task for one host whatever the number of others, several logins at a time.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  hosts:
    description: Where to log in, by the names that ssh knows.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds that a host has to accept a connection. It has three times as many to let the user in.
    type: int
    default: 10
  parallel:
    description: How many logins are under way at a time.
    type: int
    default: 8
"""

EXAMPLES = r"""
- name: Log in on every host of the cluster
  amx.cluster.ssh_login_info:
    hosts: "{{ groups['cluster'] }}"
  register: logins
  failed_when: logins.refused | length > 0
"""

RETURN = r"""
logins:
  description: What came of each login, in the order of O(hosts).
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: As asked.
      type: str
      returned: always
    ok:
      description: Whether the user was let in.
      type: bool
      returned: always
    message:
      description: What ssh said otherwise.
      type: str
      returned: always
refused:
  description: The entries of RV(logins) that are not RV(logins[].ok).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "int", "default": 10},
            "parallel": {"type": "int", "default": 8},
        },
        supports_check_mode=True,
    )
    logins = ssh_mesh.log_in_everywhere(module.params["hosts"], module.params["timeout"], module.params["parallel"])
    module.exit_json(changed=False, logins=logins, refused=[login for login in logins if not login["ok"]])


if __name__ == "__main__":
    main()
