#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_key_pair_info
short_description: Find what the key pair of an SSH mesh on this host is for
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads the public key and the SSH configuration of a mesh on a host, and returns whether both can be removed when the
    host does not log in on others. Changes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  directory:
    description: The directory C(.ssh) of the user, which need not exist.
    type: path
    required: true
  name:
    description: The name of the mesh, and of its key in the directory.
    type: str
    required: true
  host:
    description: The name of this host, which is in the comment of its own key.
    type: str
    required: true
  mesh:
    description: The names and addresses of all hosts of the mesh.
    type: list
    elements: str
    required: true
  sources:
    description: The public keys of the hosts that log in on others.
    type: list
    elements: str
    default: []
  exclusive:
    description: Whether no other mesh of this name has hosts of this one.
    type: bool
    default: true
seealso:
  - module: amx.cluster.ssh_authorized_keys_info
"""

EXAMPLES = r"""
- name: Find what the key pair is for
  amx.cluster.ssh_key_pair_info:
    directory: ~/.ssh
    name: amx_cluster
    host: "{{ inventory_hostname }}"
    mesh: [node0, 10.0.0.5, node1, 10.0.0.6]
  register: key_pair
"""

RETURN = r"""
public_key:
  description: The public key on this host, empty if there is none.
  returned: success
  type: str
use:
  description:
    - V(none) if there is no key.
    - V(shared) if the key belongs to another host, in a home directory that both hosts use.
    - V(other) if the key may be that of another mesh, because it logs in on hosts that are not in O(mesh), or because
      O(exclusive) is false.
    - V(unused) if it is the key of this host alone, which can be removed.
  returned: success
  type: str
files:
  description: The files of O(directory) that carry the mark of the mesh or of this collection, and may be removed.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "mesh": {"type": "list", "elements": "str", "required": True},
            "sources": {"type": "list", "elements": "str", "default": []},
            "exclusive": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    directory, name = Path(options["directory"]), options["name"]
    try:
        public_key, configuration = (
            path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            for path in (directory / f"{name}.pub", directory / f"{name}_config")
        )
    except OSError as error:
        module.fail_json(msg=f"{error.filename} cannot be read: {error.strerror}")
    use = ssh_mesh.key_use(
        public_key, configuration, options["host"], name, options["mesh"], options["sources"], options["exclusive"]
    )
    found = [str(path) for path in ssh_mesh.files(directory, name)]
    module.exit_json(changed=False, public_key=public_key.strip(), use=use, files=found)


if __name__ == "__main__":
    main()
