#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: file_set_info
short_description: List the files in a directory with their SHA-256
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Lists the files in a directory and in those below it, links followed. Changes nothing but O(record).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The directory.
    type: path
    required: true
  record:
    description: A file that keeps the SHA-256 of the files, so that files that have not changed are not read again.
    type: path
seealso:
  - module: amx.cluster.file_set
  - module: amx.cluster.file_pass_on
"""

EXAMPLES = r"""
- name: List the files of a model
  amx.cluster.file_set_info:
    path: /data/models/minilm
  register: minilm
"""

RETURN = r"""
files:
  description: The files, each with its path in the directory, its SHA-256 and its size in bytes.
  returned: success
  type: list
  elements: dict
  sample:
    - {file: config.json, sha256: 5f04b2bd1f9f7a9e, bytes: 612}
key:
  description: A short name of the content, which changes when any file does.
  returned: success
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "record": {"type": "path"}},
        supports_check_mode=True,
    )
    try:
        record = Record(Path(module.params["record"]) if module.params["record"] else None)
        files = file_set.listing(Path(module.params["path"]), record)
        if not module.check_mode:
            record.save()
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, files=files, key=file_set.key(files))


if __name__ == "__main__":
    main()
