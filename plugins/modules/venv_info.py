#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: venv_info
short_description: Gather facts about the virtual environments of a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Lists the virtual environments under a prefix, and checks whether another one can be installed, whether its wheels
    are for this host, and whether there is enough disk space.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The directory with the virtual environments, in C(envs), and C(env), the link to the active one.
    type: path
    required: true
  name:
    description: The name of the virtual environment to be installed.
    type: str
    default: ""
  find:
    description: An installed virtual environment to look up, by its name, by the end of it, or as V(previous).
    type: str
    default: ""
  wheels:
    description: The wheels to be installed, as M(amx.cluster.wheelhouse) returns them.
    type: list
    elements: dict
    default: []
  python:
    description:
      - The minor version of the Python with which O(name) is to be made, such as V(3.11). By default that of the
        interpreter that Ansible uses.
    type: str
  copied:
    description: Whether O(wheels) are copied to this host before, and so take disk space, too.
    type: bool
    default: true
seealso:
  - module: amx.cluster.venv
  - module: amx.cluster.stack_info
"""

EXAMPLES = r"""
- name: Gather the installed virtual environments
  amx.cluster.venv_info:
    prefix: /opt/amx-cluster
    name: native-cp311-d5eecbc6f7c9
  register: venvs
"""

RETURN = r"""
installed:
  description: The names of the virtual environments that have passed their checks, the last active one first.
  returned: success
  type: list
  elements: str
active:
  description: The name of the active virtual environment; empty when there is none.
  returned: success
  type: str
path:
  description: The path of the active virtual environment; empty when there is none.
  returned: success
  type: str
stack:
  description: The stack of the active virtual environment, as it was installed; empty when there is none.
  returned: success
  type: dict
ready:
  description: Whether O(name) is among the installed.
  returned: success
  type: bool
found:
  description: The name of the virtual environment that O(find) means.
  returned: when O(find) is set
  type: str
problems:
  description: Why O(name) cannot be installed on this host, each with what to do; empty when it is or can be installed.
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
            "find": {"type": "str", "default": ""},
            "wheels": {"type": "list", "elements": "dict", "default": []},
            "python": {"type": "str"},
            "copied": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    prefix = Path(options["prefix"])
    try:
        names = venv.installed(prefix)
        result: dict[str, Any] = {"installed": names, "active": venv.active(prefix), "problems": []}
        result["path"], result["stack"] = venv.active_stack(prefix)
        result["ready"] = options["name"] in names
        if options["find"]:
            result["found"] = venv.find(prefix, options["find"])
        elif options["name"] and not result["ready"]:
            python = options["python"] or ".".join(platform.python_version_tuple()[:2])
            result["problems"] = venv.problems(
                prefix, options["wheels"], options["copied"], platform.machine(), python, platform.libc_ver()[1]
            )
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
