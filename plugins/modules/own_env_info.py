#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: own_env_info
short_description: Gather what an environment of the user's own has on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The path of the environment}
  mpi: {type: path, required: true,
    description: "The script vars.sh of Intel MPI on the host, where the environment has none"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._stacks import own_env


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    module.exit_json(changed=False, found=own_env.describe(Path(options["path"]), Path(options["mpi"])))


if __name__ == "__main__":
    main()
