# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import image
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Makes the directory on the control node from which the image of a stack is built."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "path": {"type": "path", "required": True},
        "stack": {"type": "dict", "required": True},
        "wheels": {"type": "list", "elements": "dict", "required": True},
        "wheelhouse": {"type": "path", "required": True},
        "base": {"type": "str", "required": True},
        "examples": {"type": "path"},
        "build_args": {"type": "dict", "default": {}},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        stack, wheels, build_args = (
            json.loads(json.dumps(options[name])) for name in ("stack", "wheels", "build_args")
        )
        examples = Path(options["examples"]) if options["examples"] else None
        if examples and not examples.is_dir():
            raise ValueError(f"image_examples: there is no directory {examples} on the control node")
        wheelhouse = Path(options["wheelhouse"])
        made = image.context(stack, wheels, wheelhouse, options["base"], archive.of_collection(), examples, build_args)
        digest = made.digest()
        directory = Path(options["path"], image.tag(stack["name"], digest))
        if not self._task.check_mode:
            made.write(directory)
        return {"path": str(directory), "digest": digest, "tag": directory.name}
