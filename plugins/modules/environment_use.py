#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: environment_use
short_description: Take an installed environment into use
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Marks an environment as fit, points the link C(env) to it, and removes those that are no longer kept. The link
    changes at once, whoever looks finds the old environment or the new one.
  - Never removes an environment from which a process on this host was started.
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  prefix:
    description: The folder that holds the environments, in C(envs), and the link C(env).
    type: path
    required: true
  name:
    description: The environment.
    type: str
    required: true
  stack:
    description: The stack that it holds, which is written into it. Not given, it must have been marked as fit before.
    type: dict
  keep:
    description: How many of the environments that were in use before are kept.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Go back
  amx.cluster.environment_use:
    prefix: /opt/amx-cluster
    name: native-cp311-d5eecbc6f7c9
"""

RETURN = r"""
before:
  description: The environment that was in use, empty when there was none.
  returned: success
  type: str
removed:
  description: The environments that were removed.
  returned: success
  type: list
  elements: str
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._io import MARKER
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "stack": {"type": "dict"},
            "keep": {"type": "int", "default": 1},
        },
        supports_check_mode=True,
    )
    asked = module.params
    prefix, name = Path(asked["prefix"]), asked["name"]
    env = prefix / "envs" / name
    before = venv.in_use(prefix)
    mark = env / MARKER
    result: dict[str, Any] = {"before": before, "removed": [], "changed": before != name}
    result["diff"] = {"before": f"{before}\n", "after": f"{name}\n"}
    try:
        if asked["stack"] is None and not module.check_mode:
            venv.marker(env)
        content = None if asked["stack"] is None else json.dumps(asked["stack"], indent=1) + "\n"
        if content is not None and (not mark.exists() or mark.read_text(encoding="utf-8") != content):
            result["changed"] = True
            if not module.check_mode:
                beside = mark.with_name(mark.name + ".new")
                beside.write_text(content, encoding="utf-8")
                beside.replace(mark)
        if not module.check_mode:
            if before != name:
                venv.use(prefix, name)
            result["removed"] = venv.surplus(prefix, asked["keep"])
            for old in result["removed"]:
                # Without its mark first: half of an environment must not pass for a whole one.
                (prefix / "envs" / old / MARKER).unlink()
                shutil.rmtree(prefix / "envs" / old)
        result["changed"] = result["changed"] or bool(result["removed"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
