# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use

display = Display()


class ActionModule(ActionBase):
    """Checks the request of a reset, shows what it is about, and refuses it while jobs run. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "pieces": {"type": "raw", "default": ""},
                "hosts": {"type": "dict", "default": {}},
                "head": {"type": "dict", "default": {}},
                "control": {"type": "dict", "default": {}},
            }
        )
        try:
            pieces = reset.requested(options["pieces"] or "")
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        hosts = options["hosts"]
        if not hosts:
            return {"changed": False, "pieces": pieces}
        display.display(reset.table(hosts, options["control"], pieces))
        if not pieces:
            display.display(inventory_in_use.commands(reset.how_to(), task_vars))
        refused = reset.refusal({**options["head"], **hosts}, list(hosts), pieces)
        if pieces and refused:
            return {"failed": True, "msg": inventory_in_use.commands(refused, task_vars)}
        if refused:
            display.display(inventory_in_use.commands(reset.would_refuse(refused), task_vars))
        return {"changed": False, "pieces": pieces}
