#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: amx_info
short_description: Gather facts about AMX
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads the flags of the CPU, then requests the permission to use AMX from the kernel, as a program that uses AMX has
    to. The request is made in a child process, so that it does not change the process of the module.
  - Permissions are per process, and a container may be refused. Set O(python), or C(ansible_python_interpreter) of the
    task, to the Python interpreter that will train, so that the request is made where the training will run.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  python:
    description:
      - The command of the Python interpreter in which to make the request, by default the one that runs the module. It
        can enter a container.
    type: list
    elements: str
  root:
    description:
      - A directory with the captured C(proc/cpuinfo) and C(proc/sys/kernel/osrelease) of another machine. No request is
        made then.
    type: path
    default: /
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Gather facts about AMX in the virtual environment
  amx.cluster.amx_info:
    python: [/opt/amx-cluster/env/bin/python]
  register: amx

- name: Gather facts about AMX in a container
  amx.cluster.amx_info:
    python: [apptainer, exec, /opt/images/training.sif, python3]
  register: amx

- name: Show whether AMX can be used
  ansible.builtin.debug:
    msg: "{{ amx.reason }}: {{ amx.found }}. {{ amx.advice }}."
"""

RETURN = r"""
usable:
  description: Whether programs can use AMX to train; none if the CPU has it but no request was made.
  returned: success
  type: bool
isa:
  description:
    - The best instruction set for training that can be used, V(amx), V(avx512_bf16), V(avx512_vnni), V(avx512),
      V(avx2) or V(none).
  returned: success
  type: str
  sample: amx
reason:
  description:
    - V(usable) - the kernel grants AMX.
    - V(not_x86_64) - another architecture, or a 32-bit interpreter.
    - V(no_amx) - the CPU has no AMX, or is shown to a virtual machine as a model without AMX.
    - V(kernel_too_old) - the CPU has AMX but the kernel does not support it.
    - V(kernel_refuses) - the kernel supports AMX, or is new enough to, but refuses it to this process.
    - V(hidden_by_hypervisor) - the model of the CPU has AMX but the hypervisor hides it.
    - V(switched_off) - the model of the CPU has AMX but its flags do not show it, and there is no hypervisor. It is
      disabled in the firmware or by a boot parameter.
    - V(not_asked) - the flags show AMX but with O(root) no request was made.
  returned: success
  type: str
  sample: usable
found:
  description: What was found, as a sentence.
  returned: success
  type: str
  sample: Intel(R) Xeon(R) Platinum 8480+ shows AMX, and kernel 6.1.0 grants it
advice:
  description: What to do, as a sentence.
  returned: success
  type: str
  sample: Train in bf16
cpu:
  description: The first CPU.
  returned: success
  type: dict
  contains:
    model:
      description: The name of the model.
      type: str
      returned: success
    vendor:
      description: The vendor, as in CPUID.
      type: str
      returned: success
    family:
      description: The family, 0 if it is not known.
      type: int
      returned: success
    number:
      description: The number of the model, 0 if it is not known.
      type: int
      returned: success
    generation:
      description: The name of the generation if it has AMX, else empty.
      type: str
      returned: success
    virtual:
      description: Whether the host is a virtual machine.
      type: bool
      returned: success
kernel:
  description: The kernel.
  returned: success
  type: dict
  contains:
    release:
      description: The release, as in C(uname -r).
      type: str
      returned: success
    meets_rule:
      description:
        - Whether it meets the rule of thumb, 5.16 or newer, or a 5.15 with AMX added by its vendor, which only the
          kernel's own answer shows. RV(reason) takes precedence.
      type: bool
      returned: success
    asked:
      description: Whether a request was made.
      type: bool
      returned: success
    supports:
      description: Whether it supports requests for AMX; none if no request was made.
      type: bool
      returned: success
    answer:
      description: What it answered, the rest of a sentence that begins with "the kernel".
      type: str
      returned: success
      sample: grants AMX
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx


def main() -> None:
    module = AnsibleModule(
        argument_spec={"python": {"type": "list", "elements": "str"}, "root": {"type": "path", "default": "/"}},
        supports_check_mode=True,
    )
    python, root = module.params["python"], module.params["root"]
    if python and root != "/":
        module.fail_json(msg=f"python and root ({root}) exclude each other: set one of them")
    try:
        answer = amx.judge(**(amx.probe_with(python) if python else amx.probe(root)))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"facts about AMX cannot be gathered: {error}")
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
