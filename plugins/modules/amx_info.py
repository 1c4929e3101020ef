#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: amx_info
short_description: Tell truthfully whether programs on a host can use AMX
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads the CPU's flags, then asks the kernel for the permission to use AMX, as a program that uses it has to. The
    request is made in a child process, so that the module's own process is left as it was.
  - The permission is a process's own, and a container may be refused it. So the question is put by the interpreter that
    will train, where it will train. Name it in O(python), or in C(ansible_python_interpreter) of the task.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  python:
    description:
      - The command that starts the interpreter to ask in, by default the one that runs the module. It can enter a
        container.
    type: list
    elements: str
  root:
    description:
      - A folder with a captured C(proc/cpuinfo) and C(proc/sys/kernel/osrelease) of another machine. The kernel of that
        machine cannot be asked then.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Ask in the environment that will train
  amx.cluster.amx_info:
    python: [/opt/amx-cluster/env/bin/python]
  register: amx

- name: Ask in a container
  amx.cluster.amx_info:
    python: [apptainer, exec, /opt/images/training.sif, python3]
  register: amx

- name: Show what was found
  ansible.builtin.debug:
    msg: "{{ amx.reason }}: {{ amx.found }}. {{ amx.advice }}."
"""

RETURN = r"""
usable:
  description: Whether programs can use AMX to train; none if the CPU shows it and the kernel was not asked.
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
    - V(usable) - the kernel grants it.
    - V(not_x86_64) - another architecture, or a 32-bit interpreter.
    - V(no_amx) - the CPU has no AMX, or shows a guest none and does not say that it is one that has it.
    - V(kernel_too_old) - the CPU has it and the kernel knows nothing of it.
    - V(kernel_refuses) - the kernel knows it and refuses it to this process.
    - V(hidden_by_hypervisor) - the CPU is of a model that has it, and the hypervisor does not show it.
    - V(switched_off) - the same with no hypervisor, so firmware or a boot parameter switched it off.
    - V(not_asked) - the flags show it, and with O(root) the kernel was not asked.
  returned: success
  type: str
  sample: usable
found:
  description: What was seen, in words.
  returned: success
  type: str
  sample: Intel(R) Xeon(R) Platinum 8480+ shows AMX, and kernel 6.1.0 grants it
advice:
  description: What to do, in words.
  returned: success
  type: str
  sample: Train in bf16
cpu:
  description: The first CPU.
  returned: success
  type: dict
  contains:
    model:
      description: The model's name.
      type: str
      returned: success
    vendor:
      description: The vendor, as CPUID has it.
      type: str
      returned: success
    family:
      description: The family, 0 if it is not told.
      type: int
      returned: success
    number:
      description: The model's number, 0 if it is not told.
      type: int
      returned: success
    generation:
      description: The name of the generation if it is one that has AMX, else empty.
      type: str
      returned: success
    virtual:
      description: Whether a hypervisor runs below.
      type: bool
      returned: success
kernel:
  description: The kernel.
  returned: success
  type: dict
  contains:
    release:
      description: As C(uname -r) has it.
      type: str
      returned: success
    meets_rule:
      description:
        - Whether it meets the rule of thumb, 5.16 or newer, or a 5.15 with AMX added by its vendor. RV(reason) is what
          counts.
      type: bool
      returned: success
    asked:
      description: Whether it was asked.
      type: bool
      returned: success
    supports:
      description: Whether it knows of AMX and its like; none if it was not asked.
      type: bool
      returned: success
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
        module.fail_json(msg=f"python asks the running machine, and root {root} names another: give one of them")
    try:
        answer = amx.judge(**(amx.probe_with(python) if python else amx.probe(root)))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"cannot find out whether AMX can be used: {error}")
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
