#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: peer_info
short_description: Test names, connections and logins from a host to its peers
extends_documentation_fragment: amx.cluster.internal
options:
  peers:
    description: The hosts to test
    type: list
    elements: dict
    required: true
    suboptions:
      name: {type: str, required: true,
        description: "The name of the peer, which is resolved and which the SSH client logs in to"}
      address: {type: str, description: The address of the peer on the cluster network}
      port: {type: int, description: The port on which the peer listens. Without one no connection is tested}
  logins: {type: bool, default: false,
    description: "Whether to log in on the peers by SSH, in batch mode and with this user's configuration"}
  timeout: {type: float, default: 5, description: Seconds that a peer has to answer}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import peers


def main() -> None:
    peer = {"name": {"type": "str", "required": True}, "address": {"type": "str"}, "port": {"type": "int"}}
    module = AnsibleModule(
        argument_spec={
            "peers": {"type": "list", "elements": "dict", "required": True, "options": peer},
            "logins": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 5.0},
        },
        supports_check_mode=True,
    )
    options = module.params
    module.exit_json(changed=False, **peers.look(options["peers"], options["logins"], options["timeout"]))


if __name__ == "__main__":
    main()
