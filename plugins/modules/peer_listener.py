#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: peer_listener
short_description: Start a listener to which other hosts can connect
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Starts a process that listens on a port which the kernel chooses, and sends this host's clock to whoever connects.
  - The process ends by itself. It writes no file and reads nothing of what is sent to it.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  address:
    description: The address of this host on which to listen.
    type: str
    required: true
  visitors:
    description: The process ends when this many different addresses have connected.
    type: int
    required: true
  seconds:
    description: The process ends after this time at the latest.
    type: float
    default: 120
seealso:
  - module: amx.cluster.peer_info
"""

EXAMPLES = r"""
- name: Start a listener on the cluster network
  amx.cluster.peer_listener:
    address: 10.0.0.5
    visitors: 2
  register: listener
"""

RETURN = r"""
port:
  description: The port on which the process listens.
  returned: success
  type: int
  sample: 40123
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import peers


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "address": {"type": "str", "required": True},
            "visitors": {"type": "int", "required": True},
            "seconds": {"type": "float", "default": 120.0},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        port = peers.listen(options["address"], options["seconds"], options["visitors"])
    except OSError as error:
        module.fail_json(msg=f"cannot listen on {options['address']}: {error}")
    module.exit_json(changed=False, port=port)


if __name__ == "__main__":
    main()
