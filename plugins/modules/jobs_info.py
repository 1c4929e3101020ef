#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: jobs_info
short_description: Gather the jobs, ranks and locks on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory of the job directories}
  seconds: {type: float, default: 0.5, description: How long CPU use is measured; with 0 it is not}
  starting: {type: str, default: "", description: "The name of a job that starts, whose own locks are left out"}
  host: {type: str, default: this host, description: "The host's name in what is returned"}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import in_use


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **in_use.answer(**module.params))
    except OSError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
