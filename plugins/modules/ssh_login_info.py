#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_login_info
short_description: Test on which hosts this host can log in by SSH
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Logs in from the managed host on each of the hosts, without a terminal, a password or a prompt, as mpirun does.
  - Several logins are made at a time.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  hosts:
    description: The hosts on which to log in, by names that the SSH client knows.
    type: list
    elements: str
    required: true
  after:
    description:
      - The host of O(hosts) after which to begin. Hosts that log in on each other do not all begin with the same one
        if each names itself here.
    type: str
  timeout:
    description: Seconds that a host has to accept a connection. It has three times as many to complete the login.
    type: int
    default: 10
  parallel:
    description: The number of logins that are made at a time.
    type: int
    default: 8
seealso:
  - module: amx.cluster.peer_info
  - module: amx.cluster.ssh_host_keys_check
"""

EXAMPLES = r"""
- name: Test the login on every host of the cluster
  amx.cluster.ssh_login_info:
    hosts: "{{ groups['cluster'] }}"
    after: "{{ inventory_hostname }}"
  register: logins
  failed_when: logins.refused | length > 0
"""

RETURN = r"""
logins:
  description: The outcome of each login, in the order in which they were made.
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: The host.
      type: str
      returned: always
    ok:
      description: Whether the login succeeded.
      type: bool
      returned: always
    message:
      description: The message of ssh if the login failed, else empty.
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
            "after": {"type": "str"},
            "timeout": {"type": "int", "default": 10},
            "parallel": {"type": "int", "default": 8},
        },
        supports_check_mode=True,
    )
    options = module.params
    hosts = ssh_mesh.rotated(options["hosts"], options["after"])
    logins = ssh_mesh.log_in_everywhere(hosts, options["timeout"], options["parallel"])
    module.exit_json(changed=False, logins=logins, refused=[login for login in logins if not login["ok"]])


if __name__ == "__main__":
    main()
