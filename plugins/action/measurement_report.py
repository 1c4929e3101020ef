# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, measurements, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Shows a measurement on the control node, and applies what came of it where that is requested."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "measurement": {"type": "dict", "required": True, "options": measurements.ARGUMENTS},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        described = requested.plain(options["measurement"])
        measurement = measurements.read(described, task_vars.get("ansible_inventory_sources") or [])
        state, wrote = measurement.applied(measurement.current(), self._task.check_mode)
        if options["format"] == "text":
            display.display(inventory_in_use.commands(measurement.text(state, wrote)))
        else:
            document.emit(state.to_json(), options)
        failed = measurement.failed(state)
        if failed:
            raise ValueError(failed)
        return {"changed": bool(wrote)}
