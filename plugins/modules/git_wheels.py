#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: git_wheels
short_description: Build wheels of packages in Git repositories
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Builds a wheel of each package, without its dependencies. The wheel of a commit is built once and kept.
    A build that is still running is waited for, up to an hour.
  - Runs where the repositories and a package index can be reached, normally on the control node. It runs the build
    scripts of the packages there.
requirements:
  - git
  - pip
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.package_indexes
  - amx.cluster.package_indexes.choice
options:
  requirements:
    description:
      - The packages as pip names them, C(git+URL@REF) or C(NAME @ git+URL@REF), also with C(#subdirectory=DIRECTORY).
        The ref is a branch or a tag, also by its full name such as C(refs/tags/v1), C(HEAD) or a commit of 40 digits.
      - A ref that is a branch and a tag at different commits is refused.
    type: list
    elements: str
    required: true
  path:
    description: The directory that keeps the wheels.
    type: path
    required: true
  python:
    description: The minor version of the hosts' Python, such as V(3.11). A wheel that it cannot use is refused.
    type: str
    required: true
  glibc:
    description: The versions of the hosts' GNU C library, such as V(2.36). The oldest decides.
    type: list
    elements: str
    required: true
seealso:
  - module: amx.cluster.wheelhouse
"""

EXAMPLES = r"""
- name: Build the wheel of a package
  amx.cluster.git_wheels:
    requirements: ["git+https://github.com/example/losses.git@v1.2"]
    path: ~/.cache/amx.cluster/git_wheels
    python: "3.11"
    glibc: ["2.36"]
  delegate_to: localhost
"""

RETURN = r"""
wheels:
  description:
    - The wheels, each with C(path), C(name) and C(version), and C(requires), the requirements in its metadata. Empty
      in check mode.
  returned: success
  type: list
  elements: dict
origins:
  description: The requirements of all wheels, each with the Git URL whose wheel has it.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import answers, git_wheels, indexes, wheels
from ansible_collections.amx.cluster.plugins.module_utils._text import masked


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "requirements": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
            "python": {"type": "str", "required": True},
            "glibc": {"type": "list", "elements": "str", "required": True},
            **indexes.CHOICE,
            **indexes.ARGUMENTS,
        },
        supports_check_mode=True,
    )
    options = module.params
    module.no_log_values.update(indexes.logins(options))
    run, ask = answers.on_behalf_of(module)

    made, origins, changed = [], {}, False
    try:
        glibc = wheels.oldest(options["glibc"])
        for requirement in [] if module.check_mode else options["requirements"]:
            wheel, new = git_wheels.build(requirement, options, glibc, run, ask)
            made.append(wheel)
            changed = changed or new
            origins.update(dict.fromkeys(wheel["requires"], masked(requirement)))
    except (OSError, ValueError) as error:
        module.fail_json(msg=masked(str(error)))
    module.exit_json(changed=changed, wheels=made, origins=origins)


if __name__ == "__main__":
    main()
