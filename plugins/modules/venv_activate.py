#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: venv_activate
short_description: Activate an installed virtual environment
extends_documentation_fragment: amx.cluster.internal
options:
  prefix: {type: path, required: true,
    description: "The directory with the virtual environments, in C(envs), and the link C(env), or that of the
    engine that the stack serves"}
  name: {type: str, required: true, description: The name of the virtual environment}
  stack: {type: dict,
    description: "The stack of the virtual environment, which is written into it as C(amx-cluster.json). Without it,
    the virtual environment must have been marked before"}
  mpi: {type: dict,
    description: "The environment variables of Intel MPI, as M(amx.cluster.venv_check_info) returns them, which are
    written into the stack. Without them, those that are recorded are kept"}
  keep: {type: int, default: 1, description: How many of the previous virtual environments are kept}
  in_use: {type: list, elements: str, default: [],
    description: "The names of virtual environments that running jobs use, as M(amx.cluster.jobs_info) returns them
    from the head. They are kept, too"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, venv


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    module.no_log_values.update(indexes.logins(options["stack"]))
    prefix, name, stack = Path(options["prefix"]), options["name"], indexes.without_logins(options["stack"])
    env = prefix / "envs" / name
    if stack is not None:
        stack = venv.with_mpi(env, stack, options["mpi"])
    try:
        link = venv.link_of(stack)
        previous = venv.active(prefix, link)
        result: dict[str, Any] = {"previous": previous, "removed": [], "changed": previous != name}
        result["diff"] = {"before": f"{previous}\n", "after": f"{name}\n"}
        if stack is None and not module.check_mode:
            venv.marker(env)
        if stack is not None and read_json(env / venv.MARKER) != stack:
            result["changed"] = True
            if not module.check_mode:
                venv.mark(env, stack)
        if not module.check_mode:
            if previous != name:
                venv.activate(prefix, name, link)
            result["removed"] = venv.surplus(prefix, options["keep"], options["in_use"], link=link)
            for old in result["removed"]:
                venv.remove(prefix / "envs" / old)
        result["changed"] = result["changed"] or bool(result["removed"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
