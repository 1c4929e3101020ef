#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: file_set_info
short_description: List the files in a directory with their SHA-256
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory}
  record: {type: path,
    description: "A file that keeps the SHA-256 of the files, so that files that have not changed are not read again"}
  of_model: {type: bool, default: false, description: "Whether they are of a model, whose weights have to be whole"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data import contents, file_set
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    try:
        record = Record(Path(module.params["record"]) if module.params["record"] else None)
        path = Path(module.params["path"])
        files = file_set.listing(path, record)
        contents.check(path, (entry["file"] for entry in files), module.params["of_model"])
        if not module.check_mode:
            record.save()
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, files=files, key=file_set.key(files))


if __name__ == "__main__":
    main()
