#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: own_path
short_description: Create directories and links with the collection's mark, and remove only what carries it
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: "The directory, link or file"}
  state: {type: str, choices: [container, directory, temporary, link, absent], default: container,
    description: "V(container) is for others and removed only when it is empty, V(directory) with all that is in it,
    V(temporary) is a new one whose name begins with O(path), V(link) leads to O(target), V(absent) removes what
    carries the mark. Whatever lies there without the mark stays, and fails all but V(container) and V(absent)"}
  target: {type: path, description: What a link points to}
"""
EXAMPLES = "\n# Internal\n"

import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership


def main() -> None:
    states = ("container", "directory", "temporary", "link", "absent")
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": list(states), "default": "container"},
            "target": {"type": "path"},
        },
        required_if=[("state", "link", ["target"])],
        supports_check_mode=True,
    )
    path, state, target = Path(module.params["path"]), module.params["state"], module.params["target"]
    if state == "container":
        os.umask(0o022)  # it is made for all who use what lies in it, also by root
    try:
        if state == "link":
            changed = _ownership.link(path, Path(target), module.check_mode)
        elif module.check_mode:
            changed = not {"absent": not _ownership.is_own(path), "temporary": False}.get(state, path.is_dir())
        elif state == "absent":
            changed = _ownership.remove(path)
        elif state == "temporary":
            changed, path = True, Path(tempfile.mkdtemp(prefix=path.name, dir=path.parent))
            _ownership.mark(path, "temporary directory")
        elif state == "container":
            changed = _ownership.make(path, _ownership.CONTAINER)
        else:
            changed = not path.is_dir()
            _ownership.claim(path, "directory")
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=str(path))


if __name__ == "__main__":
    main()
