#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: own_env_stack_info
short_description: Get the stack that an environment of the user's own makes, checked for all hosts
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The path of the environment}
  hosts: {type: dict, required: true,
    description: "What M(amx.cluster.own_env_info) returned on each host, the head first"}
  known_good: {type: list, elements: dict, required: true, description: "As M(amx.cluster.stack_info) takes them"}
  backend: {type: str, required: true, description: The backend that the inventory requests}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._stacks import own_env


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    try:
        stack = own_env.stack(options["path"], options["hosts"], options["known_good"], options["backend"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    # As M(amx.cluster.stack_info): each host's Python, for which nothing is installed.
    python = {"path": f"{options['path']}/bin/python", "package": ""}
    module.exit_json(changed=False, stack=stack, pythons=dict.fromkeys(options["hosts"], python))


if __name__ == "__main__":
    main()
