#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: infer_results_info
short_description: Read what the instances of an inference benchmark have measured on a host
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads the result files of the instances in a job directory, and returns for each cell what those of this host come
    to together. Their latencies are thinned to at most 1001.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  start:
    description: What tells the start of the job from others. If set, nothing is returned of another start.
    type: str
    default: ""
seealso:
  - module: amx.cluster.measurement_next
"""

EXAMPLES = r"""
- name: Read what the instances of the host have measured
  amx.cluster.infer_results_info:
    path: /opt/amx-cluster/jobs/inference+infer-1
"""

RETURN = r"""
cells:
  description:
    - By cell, C(instances), C(state) (the worst of theirs), C(reason), C(throughput), C(latencies_us) and what else
      they have measured.
  type: dict
  returned: success
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference_files


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "start": {"type": "str", "default": ""}},
        supports_check_mode=True,
    )
    try:
        cells = inference_files.of_host(Path(module.params["path"]), module.params["start"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"the results in {module.params['path']} cannot be read: {error!r}")
    module.exit_json(changed=False, cells=cells)


if __name__ == "__main__":
    main()
