#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authorized_keys_info
short_description: Find the keys of an SSH mesh to add to authorized_keys and to remove
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the lines of C(authorized_keys) with which the hosts of a mesh may log in, and reads which keys of the mesh
    in the file are no longer in use. Changes nothing.
  - A key belongs to the mesh if its comment is C(name@host). Other keys are ignored.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  path:
    description: The file C(authorized_keys), which need not exist.
    type: path
    required: true
  sources:
    description: The hosts that may log in.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: The name of the host.
        type: str
        required: true
      address:
        description: The address from which the host connects. Its key is accepted from there only.
        type: str
        required: true
      public_key:
        description: The public key of the host.
        type: str
      pending:
        description:
          - Whether the key is yet to be generated, as a dry run reports it. Another key stands for it in check mode.
        type: bool
        default: false
  name:
    description: The name of the mesh.
    type: str
    required: true
  kept:
    description: Public keys that stay on their hosts although these are not in O(sources), and so are not stale.
    type: list
    elements: str
    default: []
  hosts:
    description: All hosts of the mesh.
    type: list
    elements: str
    required: true
  exclusive:
    description: Whether keys of hosts that are not in O(hosts) are stale.
    type: bool
    default: true
seealso:
  - module: amx.cluster.ssh_key_pair_info
"""

EXAMPLES = r"""
- name: Find the keys to add to authorized_keys and to remove
  amx.cluster.ssh_authorized_keys_info:
    path: ~/.ssh/authorized_keys
    name: amx_cluster
    hosts: [node0, node1]
    sources:
      - host: node0
        address: 10.0.0.5
        public_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  register: keys
"""

RETURN = r"""
lines:
  description: The lines with which the hosts may log in, whether they are in the file or not.
  returned: success
  type: list
  elements: str
  sample:
    - >-
      restrict,pty,from="10.0.0.5" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      amx_cluster@node0
stale:
  description: The keys of the mesh in the file that are no longer in use.
  returned: success
  type: list
  elements: str
"""

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
        {**one, "public_key": "" if module.check_mode and one["pending"] else one["public_key"] or ""}
        for one in options["sources"]
    ]
    path = Path(options["path"])
    try:
        content = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be read: {error.strerror}")
    lines = ssh_mesh.authorized_lines(sources, options["name"])
    stale = ssh_mesh.stale_keys(
        content, lines, options["name"], options["hosts"], options["exclusive"], options["kept"]
    )
    module.exit_json(changed=False, lines=lines, stale=stale)


if __name__ == "__main__":
    main()
