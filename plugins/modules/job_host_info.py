#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_host_info
short_description: Gather what the plan of a job needs of a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Finds the active virtual environment and the allocator, allocates the cores for a job, and lists the jobs that have
    locked the host, all in one call, since the start of a job waits for it.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The directory for virtual environments and jobs.
    type: path
    required: true
  backends:
    description:
      - The backend of the job with a stack of each backend, as M(amx.cluster.job_read) returns it.
    type: dict
    required: true
  request:
    description:
      - The settings of cores of M(amx.cluster.core_allocation), C(ranks_per_node), C(comm_cores), C(reserved_cores) and
        C(threads_per_core). Without it no cores are allocated.
    type: dict
  starting:
    description: The name of the job. RV(locks) leaves out its own.
    type: str
    required: true
  host:
    description: The host's name in RV(locks), such as C(inventory_hostname).
    type: str
    required: true
seealso:
  - module: amx.cluster.core_allocation
  - module: amx.cluster.jobs_info
  - module: amx.cluster.job_plan
"""

EXAMPLES = r"""
- name: Gather what the plan needs of the host
  amx.cluster.job_host_info:
    prefix: /opt/amx-cluster
    backends: {gloo: gloo, ccl: ccl}
    request: {ranks_per_node: auto}
    starting: demo
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
venv:
  description: The path of the active virtual environment; empty when there is none.
  returned: success
  type: str
stack:
  description: The stack of the active virtual environment, as it was installed; empty when there is none.
  returned: success
  type: dict
allocation:
  description:
    - What M(amx.cluster.core_allocation) returns, or C(failed) and C(msg) where the request cannot be satisfied; empty
      without O(request).
  returned: success
  type: dict
tcmalloc:
  description: The path of the allocator tcmalloc, as M(amx.cluster.loader_library_info) finds it; empty without one.
  returned: success
  type: str
jobs:
  description: The jobs that were started from this host, as M(amx.cluster.jobs_info) returns them.
  returned: success
  type: list
  elements: dict
secrets_left:
  description: The files with secrets of jobs that have ended, as M(amx.cluster.jobs_info) returns them.
  returned: success
  type: list
  elements: str
locked_by:
  description: Which jobs have locked this host, as M(amx.cluster.jobs_info) returns them.
  returned: success
  type: list
  elements: dict
locks:
  description: What stands in the way of the job on this host, a line each, as M(amx.cluster.jobs_info) returns it.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "backends": {"type": "dict", "required": True},
            "request": {"type": "dict"},
            "starting": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    prefix = Path(options["prefix"])
    try:
        path, stack = venv.active_stack(prefix)
        jobs = directory.jobs(prefix / "jobs")
        secrets_left = directory.ended_with_secrets(prefix / "jobs", options["host"])
        locked = processes.locked(prefix / "jobs", options["host"], options["starting"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    allocation: dict[str, Any] = {}
    if options["request"] is not None:
        backend = options["backends"][stack.get("backend", "gloo")]
        try:
            plan = allocate(read("/"), Request(**options["request"], backend=backend))
            allocation = {**plan.as_dict(), "core_map": CoreMap.of(plan).to_json()}
        except ValueError as error:
            allocation = {"failed": True, "msg": str(error)}
    module.exit_json(
        changed=False,
        venv=path,
        stack=stack,
        allocation=allocation,
        tcmalloc=loader.tcmalloc(),
        jobs=jobs,
        secrets_left=secrets_left,
        **locked,
    )


if __name__ == "__main__":
    main()
