#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: runtime_install
short_description: Install the programs that run jobs on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory of these programs with the name of their archive}
  python: {type: path, required: true, description: The Python that runs them}
  archive: {type: str, description: The archive in Base64; added by the action on the control node}
"""
EXAMPLES = "\n# Internal\n"

import base64
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "path", "required": True},
            "archive": {"type": "str"},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    try:
        if module.check_mode:
            module.exit_json(changed=not archive.is_complete(folder))
        packed = base64.b64decode(module.params["archive"] or "")
        module.exit_json(changed=archive.install(packed, folder, module.params["python"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{folder} cannot be written: {error}")


if __name__ == "__main__":
    main()
