#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: requirements_info
short_description: Compare requirements with the installed packages
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Compares lines of a requirements file with the packages of the Python that runs the module. Set
    C(ansible_python_interpreter) to the Python of a virtual environment.
requirements:
  - packaging, or pip, which brings it along, in the Python that runs the module
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  requirements:
    description:
      - Lines of a requirements file. Comments are ignored, options of pip are conflicts.
      - Of a package that is installed, what it requires for the extras of a line is compared as well.
    type: list
    elements: str
    required: true
  origins:
    description: Where requirements are written, by the lines in O(requirements), for messages.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.wheelhouse
  - module: amx.cluster.git_wheels
"""

EXAMPLES = r"""
- name: Find missing packages
  amx.cluster.requirements_info:
    requirements: ["sentencepiece != 0.1.92", "protobuf"]
  vars:
    ansible_python_interpreter: /opt/amx-cluster/env/bin/python
  register: compared
"""

RETURN = r"""
installed:
  description: The installed versions, by the names of packages.
  returned: success
  type: dict
  sample: {torch: 2.13.0+cpu}
missing:
  description: The requirements for packages that are not installed.
  returned: success
  type: list
  elements: str
conflicts:
  description: Why other requirements cannot be met, such as another version than the installed one.
  returned: success
  type: list
  elements: str
"""

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed, requirements


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "requirements": {"type": "list", "elements": "str", "required": True},
            "origins": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
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
