#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_collect
short_description: Bring the chunks of a prediction together on the head
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Runs on the head when the ranks of a prediction have ended. Copies the chunks of the other hosts there over the
    cluster's SSH, verifies each by its SHA-256, and writes the output of all of them in the order of the data.
  - A row is in the output once, or in the file of rejected rows, however often its chunk was computed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  host:
    description: The name of the head.
    type: str
    required: true
  shared:
    description: Whether the hosts share the job directory, so that nothing needs to be copied.
    type: bool
    default: false
seealso:
  - module: amx.cluster.prediction_chunks
  - module: amx.cluster.prediction_report
"""

EXAMPLES = r"""
- name: Bring the chunks together
  amx.cluster.prediction_collect:
    path: /opt/amx-cluster/jobs/demo-predict
    host: node0
"""

RETURN = r"""
summary:
  description: The content of C(output/prediction.json).
  returned: success
  type: dict
  sample: {rows: 1000, predicted: 998, rejected: 2, rows_per_second: 512.3}
problem:
  description: Which chunks are missing or damaged.
  returned: failure
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "shared": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    if module.check_mode:
        module.exit_json(changed=True, summary={})
    try:
        summary = prediction_files.collect(folder, module.params["host"], module.params["shared"])
    except (OSError, ValueError) as error:
        module.fail_json(
            msg=f"the chunks of {folder.name} could not be joined: {error}. Run the same command again, which "
            "computes what is missing.",
            problem=str(error),
        )
    module.exit_json(changed=True, summary=summary)


if __name__ == "__main__":
    main()
