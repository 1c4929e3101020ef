#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: reset_files
short_description: Remove what the collection keeps in a directory
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true,
    description: "The directory with virtual environments, models and jobs, or that of downloads on the control node"}
  pieces: {type: list, elements: str, required: true,
    choices: [jobs, previous, results, data, downloads, environments, wheels],
    description: "What to remove. V(jobs), job directories without results. V(previous), those of previous runs with
    results; V(results), those of last runs. V(data), models, datasets, examples and packages. V(environments), virtual
    environments and wheels; V(wheels), the wheels alone. V(downloads), what the control node has downloaded"}
"""
EXAMPLES = "\n# Internal\n"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "pieces": {"type": "list", "elements": "str", "choices": list(reset.REMOVABLE), "required": True},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    try:
        paths = sorted({file for part in module.params["pieces"] for file in reset.paths(path, part)})
        if not module.check_mode:
            paths = reset.remove(path, paths)
            reset.remove_empty(path)
        module.exit_json(
            changed=bool(paths),
            removed=[str(file) for file in paths],
            left=sorted(str(file) for file in path.iterdir()) if path.is_dir() else [],
            exists=path.is_dir(),
            diff={"before": "".join(f"{file}\n" for file in paths), "after": ""},
        )
    except OSError as error:
        module.fail_json(msg=f"{error}; what is left can be removed in another run")


if __name__ == "__main__":
    main()
