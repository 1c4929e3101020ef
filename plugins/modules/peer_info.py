#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: peer_info
short_description: Test names, connections and logins from a host to its peers
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Resolves the names of other hosts, connects to their M(amx.cluster.peer_listener), reads their clocks, and can log
    in on them by SSH. All peers are tested at the same time. Changes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  peers:
    description: The hosts to test.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The name of the peer, which is resolved and which the SSH client logs in to.
        type: str
        required: true
      address:
        description: The address of the peer on the cluster network.
        type: str
      port:
        description: The port on which the peer listens. Without one no connection is tested.
        type: int
  logins:
    description: Whether to log in on the peers by SSH, in batch mode and with this user's configuration.
    type: bool
    default: false
  timeout:
    description: Seconds that a peer has to answer.
    type: float
    default: 5
seealso:
  - module: amx.cluster.peer_listener
"""

EXAMPLES = r"""
- name: Test names, connections and logins
  amx.cluster.peer_info:
    peers:
      - {name: node1, address: 10.0.0.6, port: 40123}
    logins: true
  register: peers
"""

RETURN = r"""
names:
  description: The IPv4 addresses of each name, none if it does not resolve.
  returned: success
  type: dict
  sample: {node1: [10.0.0.6]}
connections:
  description:
    - For each peer that listens, why it cannot be reached (C(error), empty if it can), by how many seconds its clock is
      ahead of this host's (C(offset)), and the uncertainty of that in seconds (C(uncertainty)).
  returned: success
  type: dict
  sample:
    node1: {error: "", offset: 0.0013, uncertainty: 0.0002}
logins:
  description: Why the login on each peer failed, empty if it succeeded.
  returned: success
  type: dict
  sample: {node1: ""}
"""

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
