#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_chunks
short_description: Link the chunks of an interrupted prediction into its new job directory
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  digest: {type: str, required: true, description: The digest of the prediction; chunks of another one are left alone}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "digest": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    folder, digest = Path(module.params["path"]), module.params["digest"]
    try:
        before = prediction_files.chunks(folder)
        after = before if module.check_mode else prediction_files.carry_over(folder, digest)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the chunks of {folder} cannot be linked: {error}")
    module.exit_json(changed=after != before, chunks=after)


if __name__ == "__main__":
    main()
