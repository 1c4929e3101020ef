#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: infer_results_info
short_description: Read what the instances of an inference benchmark have measured on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The job directory}
  start: {type: str, default: "", description: Identifies the start of the job}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference_files


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        cells = inference_files.of_host(Path(module.params["path"]), module.params["start"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"the results in {module.params['path']} cannot be read: {error!r}")
    module.exit_json(changed=False, cells=cells)


if __name__ == "__main__":
    main()
