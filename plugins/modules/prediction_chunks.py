#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_chunks
short_description: Go on with the chunks of an interrupted prediction
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Runs on a host after the directory of a prediction was created, and before it is started. Chunks of the same
    prediction in directories that were moved aside are linked into the new one, but for damaged ones.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The job directory.
    type: path
    required: true
  digest:
    description: The digest of the prediction. Chunks of another one are left where they are.
    type: str
    required: true
seealso:
  - module: amx.cluster.prediction_plan
  - module: amx.cluster.prediction_collect
"""

EXAMPLES = r"""
- name: Go on with the chunks that are there
  amx.cluster.prediction_chunks:
    path: /opt/amx-cluster/jobs/demo-predict
    digest: 3f1c52d1f0a94a6a
"""

RETURN = r"""
chunks:
  description: The numbers of the chunks that the host has.
  returned: success
  type: list
  elements: int
"""

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
