#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Verify the files in a folder, and send those that are not as they should be
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Compares the files in a folder on the host with their SHA-256. With O(source), those that are missing or damaged are
    sent from the control machine, one by one, so that an interrupted transfer goes on where it stopped.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The folder on the host. It is made where it is missing.
    type: path
    required: true
  files:
    description:
      - What it should hold, as M(amx.cluster.wheelhouse) and M(amx.cluster.files_info) return it. Each a file's path in
        the folder, its SHA-256 and its size.
    type: list
    elements: dict
    required: true
  record:
    description:
      - A file on the host in which is kept what was read, so that files which have not changed are not read again.
    type: path
  source:
    description: The folder on the control machine that has them.
    type: path
  whole:
    description: Whether to fail when a file is missing or damaged in the end.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Send the wheels to the head
  amx.cluster.files:
    path: /opt/amx-cluster/wheels/cp311-d5eecbc6f7c9
    source: ~/.cache/amx.cluster/wheelhouse/cp311-d5eecbc6f7c9
    files: "{{ wheelhouse.wheels }}"
"""

RETURN = r"""
wanting:
  description: What is not as it should be, by file name; what was not, where O(source) has mended it.
  returned: success
  type: dict
  sample: {torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl: is damaged}
sent_bytes:
  description: How many bytes crossed from the control machine.
  returned: when O(source) is given
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "files": {"type": "list", "elements": "dict", "required": True},
            "record": {"type": "path"},
            "source": {"type": "path"},
            "whole": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["path"])
    changed = False
    try:
        if not folder.is_dir():
            changed = True
            if not module.check_mode:
                folder.mkdir(parents=True)
        known = file_set.Known(Path(module.params["record"]) if module.params["record"] else None)
        found = file_set.changed(folder, module.params["files"], known)
        if not module.check_mode:
            known.save()
            for file in found:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        module.fail_json(msg=f"{folder} cannot be read: {error}")
    if found and module.params["whole"] and not module.check_mode:
        told = ", ".join(f"{file} {what}" for file, what in sorted(found.items()))
        module.fail_json(msg=f"{folder} is not whole: {told}", wanting=found)
    module.exit_json(changed=changed, wanting=found)


if __name__ == "__main__":
    main()
