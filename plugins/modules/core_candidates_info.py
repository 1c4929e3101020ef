#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: core_candidates_info
short_description: Find the settings of cores that a host accepts
extends_documentation_fragment: amx.cluster.internal
options:
  default: {type: dict, required: true, description: The settings of cores of the job as it is. They come first}
  backends: {type: dict, required: true,
    description: "The backends to be tried with each kind of stack, that of the job as it is first"}
  stack: {type: dict, default: {}, description: The stack of the job's virtual environment}
  vary: {type: list, elements: str, default: [ranks_per_node, backend, comm_cores, reserved_cores, threads_per_core],
    description: The settings that may differ from those of the job as it is}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores import candidates
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "default": {"type": "dict", "required": True},
            "backends": {"type": "dict", "required": True},
            "stack": {"type": "dict", "default": {}},
            "vary": {"type": "list", "elements": "str", "default": list(candidates.SETTINGS)},
        },
        supports_check_mode=True,
    )
    backends = module.params["backends"][catalogue.backend_key(module.params["stack"])]
    if not backends:
        module.exit_json(changed=False, candidates=[])
    default = {**module.params["default"], "backend": backends[0]}
    try:
        offers = candidates.of_host(read("/", None), backends, default, module.params["vary"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, candidates=offers)


if __name__ == "__main__":
    main()
