# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import serving
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Serving
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Shows what is served where, and how it is asked."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "name": {"type": "str", "required": True},
        "serving": {"type": "dict", "required": True},
        "urls": {"type": "dict", "required": True},
        "statuses": {"type": "dict", "required": True},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plain = requested.plain(options)
        request = Serving.from_json(plain["serving"])
        served = serving.served(plain["name"], request, plain["urls"], plain["statuses"])
        if options["format"] == "json":
            document.emit(served, options)
        else:
            display.display(inventory_in_use.commands(serving.text(served)))
        return {}
