#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: venv_check_info
short_description: Gather the results of the checks of a virtual environment
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The path of the virtual environment}
  stack: {type: dict, required: true,
    description: "The stack of the virtual environment, as M(amx.cluster.stack_info) returns it"}
  versions: {type: dict, required: true, description: "The versions that must be installed, by the names of packages"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    result = venv.check(Path(options["path"]), options["stack"], options["versions"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
