#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_authorized_keys_place_info
short_description: Find the file in which sshd looks for the keys of a user
extends_documentation_fragment: amx.cluster.internal
options:
  user: {type: str, required: true, description: The user that others log in as}
  home: {type: path, required: true, description: The user's home directory}
  host: {type: str, required: true, description: The name of a host from which others log in}
  address: {type: str, required: true, description: The address of that host}
"""
EXAMPLES = "\n# Internal\n"

import pwd
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh


def main() -> None:
    text = {name: {"type": "str", "required": True} for name in ("user", "host", "address")}
    module = AnsibleModule(
        argument_spec={
            **text,
            "home": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    user, home = options["user"], options["home"]
    settings = ssh_mesh.sshd_settings(user, options["host"], options["address"])
    result = {"changed": False, "path": "", "known": bool(settings), "problem": ""}
    try:
        place = ssh_mesh.authorized_keys_place(settings, user, home, pwd.getpwnam(user).pw_uid)
        result["path"] = str(place)
        if not place.parent.is_dir() and Path(home) not in place.parents:
            result["problem"] = (
                f"sshd reads the keys of {user} from {place} (AuthorizedKeysFile), whose directory does not exist: "
                "create it, owned by root and with mode 0755"
            )
    except KeyError:
        result["problem"] = f"there is no user {user} on this host"
    except ValueError as error:
        result["problem"] = str(error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
