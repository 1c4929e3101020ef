#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_settings
short_description: Change and restore settings of the running kernel
extends_documentation_fragment: amx.cluster.internal
options:
  settings: {type: dict, default: {},
    description: "The value of each setting, by its path below O(root), which may contain wildcards"}
  shm_gib: {type: float, default: 0,
    description: "The least size of C(/dev/shm) in GiB, limited to half of the memory. A larger one is not changed.
    V(0) leaves the size unchanged"}
  state_file: {type: path, required: true, description: The file in which the previous values are stored}
  root: {type: path, default: /, description: "The directory that contains C(sys), C(proc) and C(dev)"}
  host: {type: str, required: true, description: The name of this host in warnings}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import tuning
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
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
