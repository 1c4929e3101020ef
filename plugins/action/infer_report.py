# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference, inference_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Shows an inference benchmark on the control node."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {"path": {"type": "path", "required": True}, **document.ARGUMENTS}

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        content = requested.recorded(Path(options["path"]))
        if options["format"] == "text":
            display.display(inventory_in_use.commands(inference_text.report(content, options["path"]), task_vars))
        else:
            document.emit(content, options)
        said = inference.failed(content)
        if said:
            raise ValueError(said)
        return {}
