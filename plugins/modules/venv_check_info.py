#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: venv_check_info
short_description: Gather the results of the checks of a virtual environment
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Runs checks with the Python of the virtual environment and the environment variables that ranks have. Are the pinned
    versions installed and no CUDA packages, can the libraries be imported, does torch have the backend and multiply
    correctly in bfloat16 with Intel's OpenMP runtime, and does Intel MPI start two processes.
  - Only packages among O(versions) are checked.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The path of the virtual environment.
    type: path
    required: true
  stack:
    description: The stack of the virtual environment, as M(amx.cluster.stack_info) returns it.
    type: dict
    required: true
  versions:
    description: The versions that must be installed, by the names of packages.
    type: dict
    required: true
seealso:
  - module: amx.cluster.venv
  - module: amx.cluster.venv_activate
"""

EXAMPLES = r"""
- name: Check the virtual environment
  amx.cluster.venv_check_info:
    path: /opt/amx-cluster/envs/native-cp311-d5eecbc6f7c9
    stack: "{{ native.stack }}"
    versions: {torch: 2.13.0+cpu, transformers: 5.23.0}
  register: checked
"""

RETURN = r"""
problems:
  description: What is wrong, each with what to do; empty when all checks passed.
  returned: success
  type: list
  elements: str
found:
  description: What torch computes with. Empty when there are problems before that, or when torch is not checked.
  returned: success
  type: dict
  contains:
    isa:
      description: The instruction set that oneDNN uses, in oneDNN's words.
      type: str
      returned: when torch is checked
    bf16_kernel:
      description: The kernel that oneDNN used for a product in bfloat16; empty when it used none.
      type: str
      returned: when torch is checked
    openmp:
      description: The files of the OpenMP runtimes in the process.
      type: list
      elements: str
      returned: when torch is checked
    mpirun:
      description: The path of Intel MPI's C(mpirun), which jobs start, too.
      type: str
      returned: when Intel MPI is checked
mpi:
  description:
    - The environment variables of Intel MPI and oneCCL, as C(env/setvars.sh) of oneCCL's bindings sets them. Empty
      where Intel MPI is that of the package impi-rt.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "stack": {"type": "dict", "required": True},
            "versions": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    result = venv.check(Path(options["path"]), options["stack"], options["versions"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
