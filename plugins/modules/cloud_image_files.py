#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: cloud_image_files
short_description: Move keys, secrets and the machine's identity out of the way of an image, and back
extends_documentation_fragment: amx.cluster.internal
options:
  state: {type: str, choices: [hidden, restored], required: true,
    description: "V(hidden) moves them to O(keep), V(restored) moves them back"}
  homes: {type: list, elements: str, default: [/root], description: Home directories}
  prefix: {type: str, default: "", description: C(cluster_prefix)}
  root: {type: path, default: /, description: The root of the host}
  keep: {type: path, default: /run/amx-cluster-image, description: "Where they are meanwhile, in memory"}
  host: {type: str, default: "", description: The host's name in the inventory}
  seconds: {type: int, default: 600, description: After how long they are moved back anyway}
"""
EXAMPLES = "\n# Internal\n"

import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cloud import image
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    root, keep = Path(options["root"]), Path(options["keep"])
    try:
        if options["state"] == "restored":
            module.exit_json(changed=keep.exists() if module.check_mode else image.restore(keep), paths=[])
        if module.check_mode:
            paths = image.paths(root, options["homes"], options["prefix"])
            module.exit_json(changed=True, paths=[f"/{path.relative_to(root)}" for path in paths])
        moved = image.hide(root, options["homes"], options["prefix"], keep, options["seconds"], options["host"])
    except subprocess.CalledProcessError as error:
        module.fail_json(msg=f"{' '.join(error.cmd)} failed: {error.stderr.decode(errors='replace').strip()}")
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, paths=moved)


if __name__ == "__main__":
    main()
