# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory


class ActionModule(ActionBase):
    """Checks the groups of the inventory on the control node. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec({"groups": {"type": "dict", "required": True}})
        errors = inventory.errors(options["groups"])
        if errors:
            lines = "".join(f"- {error}\n" for error in errors)
            return {"failed": True, "errors": errors, "msg": f"The inventory cannot be used:\n{lines}"}
        return {"changed": False, "errors": []}
