#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: requirements_info
short_description: Compare requirements with the installed packages
extends_documentation_fragment: amx.cluster.internal
options:
  requirements: {type: list, elements: str, required: true, description: Lines of a requirements file}
  origins: {type: dict, default: {},
    description: "Where requirements are written, by the lines in O(requirements), for messages"}
"""
EXAMPLES = "\n# Internal\n"

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed, requirements


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    packages = installed.packages(sys.path)
    try:
        compared = requirements.compare(
            module.params["requirements"],
            packages,
            module.params["origins"],
            lambda name: installed.requires(name, sys.path),
        )
    except ImportError as error:
        module.fail_json(msg=f"{sys.executable} has neither packaging nor pip ({error}): install one of them")
    module.exit_json(changed=False, installed=packages, **compared)


if __name__ == "__main__":
    main()
