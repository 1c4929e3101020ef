# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks the request of a prediction on the control node."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "job": {"type": "str", "default": ""},
        "model": {"type": "str", "default": ""},
        "data": {"type": "str", "default": ""},
        "setting": {"type": "raw"},
        "task": {"type": "str", "default": ""},
        "columns": {"type": "raw", "default": []},
        "predict_name": {"type": "str", "default": ""},
        "output_file": {"type": "str", "default": ""},
        "override": {"type": "raw"},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "results": {"type": "path", "required": True},
        "program": {"type": "path", "required": True},
        "again": {"type": "bool", "default": False},
    }
    # What a user can set with -e.
    OPTIONS = (*(set(ARGUMENTS) - {"hosts", "results", "program"}), "format", "query", "output")

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        requested.refuse_misspelt(self._loader, self.OPTIONS)
        wanted = predictions.read(options)
        refused = predictions.refusal(wanted, options["again"])
        if refused:
            raise ValueError(refused)
        return {"request": wanted.to_json()}
