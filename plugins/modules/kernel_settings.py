#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_settings
short_description: Change and restore settings of the running kernel
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Writes files below C(/sys) and C(/proc), and sets the size of C(/dev/shm). The values before the first change are
    stored in O(state_file).
  - A setting of a previous run that is not requested any more is restored, unless somebody else has changed it since.
  - A setting that the kernel refuses is reported as a warning and in RV(refused); it is no failure.
  - Only the running kernel is changed. The settings are lost at a reboot.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.diff_module
options:
  settings:
    description: The value of each setting, by its path below O(root), which may contain wildcards.
    type: dict
    default: {}
  shm_gib:
    description:
      - The least size of C(/dev/shm) in GiB, limited to half of the memory. A larger one is not changed. V(0) leaves
        the size unchanged.
    type: float
    default: 0
  state_file:
    description: The file in which the previous values are stored.
    type: path
    required: true
  root:
    description: The directory that contains C(sys), C(proc) and C(dev).
    type: path
    default: /
  host:
    description: The name of this host in warnings.
    type: str
    required: true
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Enable transparent huge pages
  amx.cluster.kernel_settings:
    settings:
      sys/kernel/mm/transparent_hugepage/enabled: always
    state_file: /var/lib/amx-cluster/kernel_settings.json
    host: "{{ inventory_hostname }}"

- name: Restore all settings
  amx.cluster.kernel_settings:
    state_file: /var/lib/amx-cluster/kernel_settings.json
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: The settings that were changed, or would be in check mode.
  returned: success
  type: list
  elements: dict
  sample:
    - {path: sys/kernel/mm/transparent_hugepage/enabled, before: madvise, after: always}
applied:
  description: The settings that have the requested value. That of C(dev/shm) is in bytes.
  returned: success
  type: dict
refused:
  description: The settings that could not be changed, each with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {setting: proc/sys/kernel/numa_balancing, reason: "the kernel refuses 0: Read-only file system"}
missing:
  description: The settings that this kernel does not have.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import tuning


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "default": {}},
            "shm_gib": {"type": "float", "default": 0},
            "state_file": {"type": "path", "required": True},
            "root": {"type": "path", "default": "/"},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    root, state = Path(module.params["root"]), Path(module.params["state_file"])

    def remount(path: Path, size: int) -> str:
        code, _out, error = module.run_command(["mount", "-o", f"remount,size={size}", str(path)])
        return f"it cannot be resized to {size} bytes: {' '.join(error.split())}" if code else ""

    settings = {pattern: str(value) for pattern, value in module.params["settings"].items()}
    try:
        remembered = tuning.load(state)
        before = {name: dict(memory) for name, memory in remembered.items()}
        least = 0
        if module.params["shm_gib"]:
            meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
            least = tuning.least_shm(module.params["shm_gib"], meminfo)
        outcome = tuning.apply(settings, least, remembered, root, remount, module.check_mode)
        if remembered != before and not module.check_mode:
            tuning.store(state, remembered)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    for refusal in outcome.refused:
        module.warn(f"{module.params['host']}: {refusal['setting']} cannot be set: {refusal['reason']}")
    module.exit_json(
        changed=bool(outcome.changed),
        changes=outcome.changed,
        applied=outcome.applied,
        refused=outcome.refused,
        missing=outcome.missing,
        diff={
            "before": "".join(f"{row['path']}: {row['before']}\n" for row in outcome.changed),
            "after": "".join(f"{row['path']}: {row['after']}\n" for row in outcome.changed),
        },
    )


if __name__ == "__main__":
    main()
