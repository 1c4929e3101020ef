#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: prediction_model
short_description: Find a trained model on the head and keep it for predictions
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads on the head what a job has trained, or a directory with a model, and what its predictions need to know of it.
  - The files of a job's model are linked into a directory named by their content, so that a prediction keeps its model
    when the job is run again.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  job:
    description: The name of the job that trained the model. Either this or O(path) is required.
    type: str
    default: ""
  path:
    description: A directory with a model as C(save_pretrained) writes it.
    type: path
  jobs:
    description: The directory of the job directories.
    type: path
    required: true
  cache:
    description: The directory that keeps the models of predictions.
    type: path
    required: true
seealso:
  - module: amx.cluster.prediction_plan
"""

EXAMPLES = r"""
- name: Find the model
  amx.cluster.prediction_model:
    job: demo
    jobs: /opt/amx-cluster/jobs
    cache: /opt/amx-cluster/cache/predictions
"""

RETURN = r"""
directory:
  description: The directory with the model's files, and nothing else.
  returned: success
  type: str
sha256:
  description: A short name of the content, which changes when any file does.
  returned: success
  type: str
config:
  description: The content of the model's C(config.json).
  returned: success
  type: dict
args:
  description: The arguments of the script that trained it; empty for O(path).
  returned: success
  type: dict
trained_on:
  description: The columns of the job's training data, where the job names a file with them; else empty.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "str", "default": ""},
            "path": {"type": "path"},
            "jobs": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    cache = Path(options["cache"])
    try:
        record = Record(cache / "models.read.json")
        if options["job"]:
            found = prediction_files.of_job(Path(options["jobs"]), options["job"], record)
            target = cache / "models" / found["sha256"]
            changed = not target.is_dir()
            if changed and not module.check_mode:
                prediction_files.link(Path(found["directory"]), found["files"], target)
            found["directory"] = str(target)
        else:
            found = prediction_files.of_directory(Path(options["path"] or "/"), record)
            changed = False
        if not module.check_mode:
            record.save()
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **found)


if __name__ == "__main__":
    main()
