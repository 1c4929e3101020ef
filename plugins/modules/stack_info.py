#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: stack_info
short_description: Get a stack of a catalogue, checked for these hosts
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Looks a stack up in a catalogue, and chooses the Python of each host for it, the same minor version everywhere.
    Fails when the stack's versions cannot work together, or hosts cannot have a common Python for it.
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
      - The stacks by name. Each has C(python), the minor versions for which it has wheels, C(backend), V(mpi), V(gloo)
        or V(ccl), and C(packages), the pinned versions by name; C(bindings), the module that registers the backend
        V(ccl); and optionally C(arguments), the arguments of scripts, instead of those for its version of
        transformers, and C(by_python), C(packages) and C(constraints) that differ for a minor version of Python.
    type: dict
    required: true
  known_good:
    description:
      - Compatible versions. Each has C(torch), C(ipex) and C(oneccl), versions in which V(*) stands for anything, and
        C(python), the first and the last minor version with wheels of all three.
    type: list
    elements: dict
    default: []
  hosts:
    description:
      - By the name of each host, C(pythons) and C(os) as M(amx.cluster.host_info) returns them. Without hosts the first
        Python of the stack is taken.
    type: dict
    default: {}
  install:
    description:
      - Whether hosts may install the newer Python of their distribution. Which packages there are is in
        C(docs/operating_systems.md).
    type: bool
    default: false
  cuda_build:
    description:
      - V(refuse) pins torch as the catalogue has it, normally to its CPU build.
      - V(allow) lets torch be the CUDA build of the same version where no index has the CPU build.
    type: str
    choices: [refuse, allow]
    default: refuse
  engine:
    description:
      - The engine of C(amx serve) whose stack O(name) is, as its C(serves) says. By default it is one that trains.
    type: str
    default: ""
seealso:
  - module: amx.cluster.venv
  - module: amx.cluster.wheelhouse
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
    hosts:
      node0: {pythons: {own: ["3.9", /usr/bin/python3.9], others: {}, fixed: [], error: ""}, os: rocky 9.6}
      node1: {pythons: {own: ["3.11", /usr/bin/python3.11], others: {}, fixed: [], error: ""}, os: debian 12}
    install: true
  delegate_to: localhost
  run_once: true
  register: mine
"""

RETURN = r"""
stack:
  description:
    - The stack as the catalogue has it for the chosen Python, with its C(name), C(interpreter), the minor version of
      that Python, and C(arguments), the arguments by which its version of transformers is set to CPU only, the
      backend, bf16 and IPEX, the last empty where its versions would not call C(ipex.optimize) for it; and
      C(cuda_build) where O(cuda_build) is V(allow).
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
pythons:
  description: The Python of each host, as C(path), and C(package), which must be installed first; empty if none must.
  returned: success
  type: dict
  sample:
    node0: {path: /usr/bin/python3.11, package: python3.11}
    node1: {path: /usr/bin/python3.11, package: ""}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue, indexes, pythons


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "catalogue": {"type": "dict", "required": True},
            "known_good": {"type": "list", "elements": "dict", "default": []},
            "hosts": {"type": "dict", "default": {}},
            "install": {"type": "bool", "default": False},
            "cuda_build": {"type": "str", "choices": ["refuse", "allow"], "default": "refuse"},
            "engine": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    options = module.params
    module.no_log_values.update(indexes.logins(options["catalogue"]))
    try:
        stack, choices = catalogue.choose(
            options["catalogue"],
            options["name"],
            {host: pythons.described(has) for host, has in options["hosts"].items()},
            options["known_good"],
            install=options["install"],
            cuda_build=options["cuda_build"] == "allow",
            engine=options["engine"],
        )
    except ValueError as error:
        module.fail_json(msg=str(error))
    chosen = {host: choice._asdict() for host, choice in choices.items()}
    module.exit_json(changed=False, stack=stack, pythons=chosen)


if __name__ == "__main__":
    main()
