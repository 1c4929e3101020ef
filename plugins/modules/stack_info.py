#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: stack_info
short_description: Get a stack of a catalogue, checked for these hosts
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Looks a stack up in a catalogue and fails when its versions cannot work together, or not with the hosts' Python.
  - Runs where the catalogue is, normally on the control node. The role C(torch_stack) ships a catalogue in
    C(vars/stacks.yml).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  name:
    description: The name of the stack.
    type: str
    required: true
  catalogue:
    description:
      - The stacks by name. Each has C(python), the minor versions for which it has wheels, C(backend), V(gloo) or
        V(ccl), and C(packages), the pinned versions by name; C(bindings), the module that registers the backend V(ccl);
        and optionally C(arguments), the arguments of scripts, instead of those for its version of transformers.
    type: dict
    required: true
  known_good:
    description:
      - Compatible versions. Each has C(torch), C(ipex) and C(oneccl), versions in which V(*) stands for anything, and
        C(python), the first and the last minor version with wheels of all three.
    type: list
    elements: dict
    default: []
  pythons:
    description: The minor versions of Python on the hosts, such as V(3.11), which must be the same.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Get the stack
  amx.cluster.stack_info:
    name: mine
    catalogue:
      mine:
        python: ["3.11"]
        backend: gloo
        packages: {torch: 2.13.0+cpu, transformers: 5.23.0, accelerate: 1.15.0, pip: "26.3"}
    pythons: ["3.11", "3.11"]
  delegate_to: localhost
  run_once: true
  register: mine
"""

RETURN = r"""
stack:
  description:
    - The stack as the catalogue has it, with its C(name), C(interpreter), the minor version of the hosts' Python, and
      C(arguments), the arguments by which its version of transformers is set to CPU only, the backend, bf16 and IPEX.
    - URLs in it are without users and passwords.
  returned: success
  type: dict
  sample:
    name: mine
    python: ["3.11"]
    backend: gloo
    packages: {torch: 2.13.0+cpu, transformers: 5.23.0, accelerate: 1.15.0, pip: "26.3"}
    interpreter: "3.11"
    arguments: {cpu: {use_cpu: true}, distributed: {ddp_backend: gloo}, bf16: {bf16: true}, ipex: {}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue, indexes


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "catalogue": {"type": "dict", "required": True},
            "known_good": {"type": "list", "elements": "dict", "default": []},
            "pythons": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    options = module.params
    module.no_log_values.update(indexes.logins(options["catalogue"]))
    try:
        stack = catalogue.choose(options["catalogue"], options["name"], options["pythons"], options["known_good"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, stack=stack)


if __name__ == "__main__":
    main()
