#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_key_pair_info
short_description: Find what the key pair of an SSH mesh on this host is for
extends_documentation_fragment: amx.cluster.internal
options:
  directory: {type: path, required: true, description: "The directory C(.ssh) of the user, which need not exist"}
  name: {type: str, required: true, description: "The name of the mesh, and of its key in the directory"}
  host: {type: str, required: true, description: "The name of this host, which is in the comment of its own key"}
  mesh: {type: list, elements: str, required: true, description: The names and addresses of all hosts of the mesh}
  sources: {type: list, elements: str, default: [], description: The public keys of the hosts that log in on others}
  exclusive: {type: bool, default: true, description: Whether no other mesh of this name has hosts of this one}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
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
    files = [str(path) for path in ssh_mesh.files(directory, name)]
    module.exit_json(changed=False, public_key=public_key.strip(), use=use, files=files)


if __name__ == "__main__":
    main()
