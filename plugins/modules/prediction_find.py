#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_find
short_description: Find the model and the data of a prediction on the head, and what became of its previous start
extends_documentation_fragment: amx.cluster.internal
options:
  prefix: {type: path, required: true, description: The directory with the virtual environment and the jobs}
  name: {type: str, required: true, description: The name of the job of the prediction}
  job: {type: str, default: "", description: The job that trained the model}
  model: {type: str, default: "", description: "The model: head:PATH, or a path on the control node, which is left out"}
  data: {type: str, default: "", description: "The data: head:PATH, or a path on the control node, which is left out"}
  adapters: {type: dict, default: {},
    description: "Names of LoRA adapters, each with its job, or its path as that of the model"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    wanted = [options[key] for key in ("name", "job", "model", "data", "adapters")]
    try:
        facts, changed = prediction_files.find(Path(options["prefix"]), *wanted, dry=module.check_mode)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **facts)


if __name__ == "__main__":
    main()
