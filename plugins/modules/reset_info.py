#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: reset_info
short_description: Find what the collection has made on a host
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true,
    description: "The directory with virtual environments, models and jobs, or that of downloads on the control node"}
  host: {type: str, required: true, description: "The host's name in the inventory"}
  pieces: {type: list, elements: str,
    choices: [jobs, previous, results, data, downloads, environments, tuning, firewall, ssh],
    default: [jobs, previous, results, data, environments, tuning, firewall, ssh],
    description: The pieces to look for. By default all but C(downloads)}
  ssh_directory: {type: path, default: ~/.ssh, description: The directory C(.ssh) of the user that runs jobs}
  ssh_name: {type: str, default: amx_cluster, description: "The name of the role ssh_mesh's key in that directory"}
"""
EXAMPLES = "\n# Internal\n"

import contextlib
import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall, ssh_mesh, tuning
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset


def state(part: str, path: Path, ssh_directory: Path, ssh_name: str) -> dict[str, Any]:
    """Return what the host has of a part of the installation."""
    if part in reset.OF_FILES:
        paths = reset.paths(path, part)
        stays = [str(file) for file in reset.unmarked(path, part)]
        return {**marked(paths), "bytes": reset.size(paths), "unmarked": stays}
    if part == "ssh":
        files = [str(file) for file in ssh_mesh.files(ssh_directory, ssh_name)]
        marks = dict.fromkeys(files, f"of the key with the comment {ssh_name}@...")
        return {"paths": files, "marks": marks, "keys": ssh_mesh.keys(places(ssh_directory), ssh_name)}
    made = marked(reset.system_files(part))
    if part == "tuning":
        return {**made, "settings": tuning.recorded()}
    rules = firewall.recorded()
    return {**made, "marks": {**made["marks"], **rules}, "rules": list(rules)}


def places(ssh_directory: Path) -> list[Path]:
    """Return the files with the user's keys: the usual one, and that in which sshd looks, where it can be read."""
    usual = ssh_directory / "authorized_keys"
    with contextlib.suppress(KeyError, ValueError):
        own = pwd.getpwuid(os.getuid())
        settings = ssh_mesh.sshd_settings(own.pw_name, "localhost", "127.0.0.1")
        return [usual, ssh_mesh.authorized_keys_place(settings, own.pw_name, own.pw_dir, own.pw_uid)]
    return [usual]


def marked(paths: Iterable[Path]) -> dict[str, Any]:
    """Return paths, and the mark by which each is known."""
    marks = {str(path): _ownership.described(path) for path in paths}
    return {"paths": list(marks), "marks": marks}


def main() -> None:
    known = list(reset.PIECES)
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "pieces": {
                "type": "list",
                "elements": "str",
                "choices": known,
                "default": [part for part in known if part != "downloads"],
            },
            "ssh_directory": {"type": "path", "default": "~/.ssh"},
            "ssh_name": {"type": "str", "default": "amx_cluster"},
        },
        supports_check_mode=True,
    )
    options = module.params
    path, ssh = Path(options["path"]), (Path(options["ssh_directory"]), options["ssh_name"])
    try:
        module.exit_json(
            changed=False,
            pieces={part: state(part, path, *ssh) for part in options["pieces"]},
            in_use=reset.used(path, options["host"]),
        )
    except OSError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
