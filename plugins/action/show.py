# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen


class ActionModule(ActionBase):
    """Prints a text, or data as JSON, on the control node. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {"text": {"type": "str", "required": True}, "data": {"type": "raw"}, **document.ARGUMENTS}
        )
        if options["format"] == "text":
            screen.show(options["text"])
            return {"changed": False}
        try:
            document.emit(options["data"], options)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": str(error)}
        return {"changed": False}
