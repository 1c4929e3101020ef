#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_info
short_description: Get the status of a job
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  log_offset: {type: int, default: 0, description: The byte of the log from which on it is returned}
  wait: {type: float, default: 0, description: Seconds to wait for the end of a job that runs}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **directory.answer(**module.params))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
