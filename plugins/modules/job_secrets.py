#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job_secrets
short_description: Remove the secrets of jobs that have ended from a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory of the job directories}
  host: {type: str, required: true, description: "The host's name in the inventory"}
  jobs: {type: list, elements: dict, required: true, description: "The jobs of the head, as jobs_info returns them"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    try:
        files = directory.remove_ended_secrets(
            Path(options["path"]), options["host"], options["jobs"], check=module.check_mode
        )
    except OSError as error:
        module.fail_json(msg=f"secrets of ended jobs cannot be removed: {error}")
    module.exit_json(changed=bool(files), files=files)


if __name__ == "__main__":
    main()
