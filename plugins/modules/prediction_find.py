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
  model: {type: str, default: "", description: A directory with a model on the head}
  data: {type: str, default: "", description: A file with data on the head}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "job": {"type": "str", "default": ""},
            "model": {"type": "str", "default": ""},
            "data": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    options, check = module.params, module.check_mode
    prefix = Path(options["prefix"])
    jobs, cache = prefix / "jobs", prefix / prediction_files.CACHE
    facts: dict[str, Any] = {"model": {}, "data": {}, "previous": prediction_files.previous(jobs / options["name"])}
    changed = False
    try:
        record = Record(cache / "models.read.json")
        if options["job"]:
            facts["model"], changed = prediction_files.keep(jobs, options["job"], cache, record, dry=check)
        elif options["model"]:
            facts["model"] = prediction_files.of_directory(Path(options["model"]), record)
        if options["data"]:
            facts["data"] = prediction_files.of_data(Path(options["data"]), prefix, record, dry=check)
        if not check and cache.is_dir():
            record.save()
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **facts)


if __name__ == "__main__":
    main()
