#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_login_info
short_description: Test on which hosts this host can log in by SSH
extends_documentation_fragment: amx.cluster.internal
options:
  hosts: {type: list, elements: str, required: true,
    description: "The hosts on which to log in, by names that the SSH client knows"}
  after: {type: str, description: The host of O(hosts) after which to begin}
  timeout: {type: int, default: 10, description: Seconds that a host has to accept a connection}
  parallel: {type: int, default: 8, description: The number of logins that are made at a time}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    hosts = ssh_mesh.rotated(options["hosts"], options["after"])
    logins = ssh_mesh.log_in_everywhere(hosts, options["timeout"], options["parallel"])
    module.exit_json(changed=False, logins=logins, refused=[login for login in logins if not login["ok"]])


if __name__ == "__main__":
    main()
