#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: core_instances_info
short_description: Find how many independent instances a host can have
extends_documentation_fragment: amx.cluster.internal
options:
  backend: {type: str, default: gloo, description: The backend of the stack}
  instances_per_node: {type: list, elements: raw, default: [],
    description: "Numbers of instances, V(auto), one for each NUMA node, or V(cores), one for each core"}
  threads_per_instance: {type: list, elements: int, default: [],
    description: "Threads of an instance, each on a core. There are as many instances as fit"}
  reserved_cores: {type: raw, default: auto,
    description: "The number of cores that are kept for the system, or V(auto)"}
  threads_per_core: {type: raw, default: 1, description: "OpenMP threads on each core, a number or V(all)"}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores import instances
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    try:
        results = instances.of_host(
            read("/", None),
            options["backend"],
            options["instances_per_node"],
            options["threads_per_instance"],
            options["reserved_cores"],
            options["threads_per_core"],
        )
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, instances=results)


if __name__ == "__main__":
    main()
