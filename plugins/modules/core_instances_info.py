#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: core_instances_info
short_description: Find how many independent instances a host can have
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns what numbers of instances, and threads of an instance, come to on this host, as settings of
    M(amx.cluster.core_allocation), and why the host refuses those that do not fit.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  backend:
    description: The backend of the stack.
    type: str
    default: gloo
  instances_per_node:
    description: Numbers of instances, V(auto), one for each NUMA node, or V(cores), one for each core.
    type: list
    elements: raw
    default: []
  threads_per_instance:
    description: Threads of an instance, each on a core. There are as many instances as fit.
    type: list
    elements: int
    default: []
  reserved_cores:
    description: The number of cores that are kept for the system, or V(auto).
    type: raw
    default: auto
  threads_per_core:
    description: OpenMP threads on each core, a number or V(all).
    type: raw
    default: 1
seealso:
  - module: amx.cluster.core_allocation
  - module: amx.cluster.infer_step
"""

EXAMPLES = r"""
- name: Find how many instances the host can have
  amx.cluster.core_instances_info:
    instances_per_node: [1, auto, cores]
"""

RETURN = r"""
instances:
  description:
    - In the order of the options, C(name), C(ranks_per_node) and C(reserved_cores) of a job, C(instances), C(threads)
      of each, C(allocation), a digest, and C(error), why the host refuses it.
  type: list
  elements: dict
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores import instances
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "backend": {"type": "str", "default": "gloo"},
            "instances_per_node": {"type": "list", "elements": "raw", "default": []},
            "threads_per_instance": {"type": "list", "elements": "int", "default": []},
            "reserved_cores": {"type": "raw", "default": "auto"},
            "threads_per_core": {"type": "raw", "default": 1},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        found = instances.of_host(
            read("/", None),
            options["backend"],
            options["instances_per_node"],
            options["threads_per_instance"],
            options["reserved_cores"],
            options["threads_per_core"],
        )
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, instances=found)


if __name__ == "__main__":
    main()
