# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Prints a text, or data as JSON, on the control node. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "text": {"type": "str", "required": True},
        "data": {"type": "raw"},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if options["format"] == "text" or options["data"] is None:
            screen.show(options["text"])
        else:
            document.emit(options["data"], options)
        return {}
