#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_collect
short_description: Copy the chunks of a prediction to the head, verify and join them
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  host: {type: str, required: true, description: The name of the head}
  shared: {type: bool, default: false, description: Whether the hosts share the job directory}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    path = Path(module.params["path"])
    if module.check_mode:
        module.exit_json(changed=True, summary={})
    try:
        summary = prediction_files.collect(path, module.params["host"], module.params["shared"])
    except (OSError, ValueError) as error:
        module.fail_json(
            msg=f"the chunks of {path.name} could not be joined: {error}. Run the same command again, which goes on "
            "with what is there.",
            problem=str(error),
        )
    module.exit_json(changed=True, summary=summary)


if __name__ == "__main__":
    main()
