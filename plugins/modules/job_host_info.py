#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_host_info
short_description: Gather what the plan of a job needs of a host in one call, since the start of a job waits for it
extends_documentation_fragment: amx.cluster.internal
options:
  prefix: {type: path, required: true, description: The directory for virtual environments and jobs}
  backends: {type: dict, required: true, description: The backend of the job with a stack of each backend}
  request: {type: dict, description: The settings of core_allocation; without them no cores are allocated}
  starting: {type: str, required: true, description: "The name of the job, whose own locks are left out"}
  host: {type: str, required: true, description: "The host's name in what is returned"}
  runtime: {type: str, required: true, description: The name of the archive of programs that the job runs with}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores import memory
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import read
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory, processes
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "backends": {"type": "dict", "required": True},
            "request": {"type": "dict"},
            "starting": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "runtime": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    prefix = Path(options["prefix"])
    runtime = prefix / archive.DIRECTORY / options["runtime"]
    try:
        path, stack = venv.active_stack(prefix)
        jobs = directory.jobs(prefix / "jobs")
        secrets_left = directory.ended_with_secrets(prefix / "jobs", options["host"])
        locked = processes.locked(prefix / "jobs", options["host"], options["starting"])
        previous = directory.previous(prefix / "jobs" / options["starting"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    allocation: dict[str, Any] = {}
    if options["request"] is not None:
        backend = options["backends"][stack.get("backend", "gloo")]
        try:
            plan = allocate(read("/"), Request(**options["request"], backend=backend))
            seen = memory.read(Path("/")).to_json()
            allocation = {**plan.as_dict(), "core_map": CoreMap.of(plan).to_json(), "memory": seen}
        except ValueError as error:
            allocation = {"failed": True, "msg": str(error)}
    module.exit_json(
        changed=False,
        venv=path,
        runtime=str(runtime),
        has_runtime=archive.is_complete(runtime),
        stack=stack,
        allocation=allocation,
        tcmalloc=loader.tcmalloc(),
        memory_bytes=memory.total(Path("/")),
        jobs=jobs,
        secrets_left=secrets_left,
        previous=previous,
        **locked,
    )


if __name__ == "__main__":
    main()
