#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: peer_listener
short_description: Start a listener to which other hosts can connect
extends_documentation_fragment: amx.cluster.internal
options:
  address: {type: str, required: true, description: The address of this host on which to listen}
  visitors: {type: int, required: true,
    description: The process ends when this many different addresses have connected}
  seconds: {type: float, default: 120, description: The process ends after this time at the latest}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import peers
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    try:
        port = peers.listen(options["address"], options["seconds"], options["visitors"])
    except OSError as error:
        module.fail_json(msg=f"cannot listen on {options['address']}: {error}")
    module.exit_json(changed=False, port=port)


if __name__ == "__main__":
    main()
