#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_end
short_description: End a job on a host, or what it has left there
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  grace: {type: int, default: 20, description: Seconds that each process has to end by itself}
  patience: {type: int, default: 150,
    description: Seconds that the supervisor has to end the ranks on all hosts and to fetch what they have written}
  host: {type: str, default: this host, description: "The host's name in what is returned"}
"""
EXAMPLES = "\n# Internal\n"

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import ending


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        module.exit_json(**ending.end(**module.params, check=module.check_mode))
    except ValueError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
