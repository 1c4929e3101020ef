#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authorized_keys_info
short_description: Find the keys of an SSH mesh to add to authorized_keys and to remove
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: "The file C(authorized_keys), which need not exist"}
  sources:
    description: The hosts that may log in
    type: list
    elements: dict
    required: true
    suboptions:
      host: {type: str, required: true, description: The name of the host}
      address: {type: str, required: true, description: The address from which the host connects}
      public_key: {type: str, description: The public key of the host}
      pending: {type: bool, default: false,
        description: "Whether the key is yet to be generated, as a dry run reports it. Another key stands for it in
        check mode"}
  name: {type: str, required: true, description: The name of the mesh}
  kept: {type: list, elements: str, default: [],
    description: "Public keys that stay on their hosts although these are not in O(sources), and so are not stale"}
  hosts: {type: list, elements: str, required: true, description: All hosts of the mesh}
  exclusive: {type: bool, default: true, description: Whether keys of hosts that are not in O(hosts) are stale}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh


def main() -> None:
    source = {
        "host": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "public_key": {"type": "str", "no_log": False},
        "pending": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "sources": {"type": "list", "elements": "dict", "required": True, "options": source},
            "name": {"type": "str", "required": True},
            "kept": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "exclusive": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    sources = [
        {**source, "public_key": "" if module.check_mode and source["pending"] else source["public_key"] or ""}
        for source in options["sources"]
    ]
    path = Path(options["path"])
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be read: {error.strerror}")
    lines = ssh_mesh.authorized_lines(sources, options["name"])
    stale = ssh_mesh.stale_keys(text, lines, options["name"], options["hosts"], options["exclusive"], options["kept"])
    module.exit_json(changed=False, lines=lines, stale=stale)


if __name__ == "__main__":
    main()
