#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_host_info
short_description: Gather what the plan of a job needs of a host in one call, since the start of a job waits for it
extends_documentation_fragment: amx.cluster.internal
options:
  prefix: {type: path, required: true, description: The directory for virtual environments and jobs}
  host: {type: str, required: true, description: "The host's name in what is returned"}
  question: {type: dict, required: true, description: What job_read returns of the job}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import host_answer


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **host_answer.answer(**module.params))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
