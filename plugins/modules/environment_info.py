#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: environment_info
short_description: Tell which environments a host has, and whether it can have another
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Looks at the environments under a prefix, and whether wheels suit this host and fit on its disk. Changes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The folder that holds the environments, in C(envs), and C(env), the link to the one in use.
    type: path
    required: true
  name:
    description: The environment that is asked for.
    type: str
    default: ""
  use:
    description: An installed environment to go back to, its name or the end of it, or V(previous).
    type: str
    default: ""
  wheels:
    description: The wheels that it would be made of, as M(amx.cluster.wheelhouse) returns them.
    type: list
    elements: dict
    default: []
  copied:
    description: Whether the wheels take room on this host, too.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: See what is installed
  amx.cluster.environment_info:
    prefix: /opt/amx-cluster
    name: native-cp311-d5eecbc6f7c9
  register: environments
"""

RETURN = r"""
installed:
  description: The names of the environments that have passed their check, the one last in use first.
  returned: success
  type: list
  elements: str
in_use:
  description: The name of the one in use, empty when there is none.
  returned: success
  type: str
path:
  description: Where the one in use lies, empty when there is none.
  returned: success
  type: str
stack:
  description: The stack of the one in use, as it was installed; empty when there is none.
  returned: success
  type: dict
ready:
  description: Whether the one that is asked for is among the installed.
  returned: success
  type: bool
chosen:
  description: The environment that O(use) means.
  returned: when O(use) is given
  type: str
problems:
  description: Why the one that is asked for cannot be installed here; empty when it is or can be.
  returned: success
  type: list
  elements: str
"""

import platform
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "name": {"type": "str", "default": ""},
            "use": {"type": "str", "default": ""},
            "wheels": {"type": "list", "elements": "dict", "default": []},
            "copied": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    prefix = Path(asked["prefix"])
    try:
        names = venv.installed(prefix)
        result: dict[str, Any] = {"installed": names, "in_use": venv.in_use(prefix), "problems": []}
        result["path"], result["stack"] = venv.current(prefix)
        result["ready"] = asked["name"] in names
        if asked["use"]:
            result["chosen"] = venv.choose(prefix, asked["use"])
        elif asked["name"] and not result["ready"]:
            python = ".".join(platform.python_version_tuple()[:2])
            result["problems"] = venv.problems(
                prefix, asked["wheels"], asked["copied"], platform.machine(), python, platform.libc_ver()[1]
            )
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
