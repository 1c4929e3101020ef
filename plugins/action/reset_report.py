# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset, reset_text
from ansible_collections.amx.cluster.plugins.module_utils._text import count, names
from ansible_collections.amx.cluster.plugins.plugin_utils import agreement, inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Checks the request of a reset, shows what it is about, and refuses it while jobs run. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "pieces": {"type": "raw", "default": ""},
        "hosts": {"type": "dict", "default": {}},
        "head": {"type": "dict", "default": {}},
        "control": {"type": "dict", "default": {}},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        parts = reset.requested(options["pieces"] or "")
        hosts = options["hosts"]
        if not hosts:
            return {"pieces": parts}
        display.display(reset_text.table(hosts, options["control"], parts))
        if not parts:
            display.display(inventory_in_use.commands(reset_text.how_to()))
        refused = reset_text.refusal({**options["head"], **hosts}, list(hosts), parts)
        if parts and refused:
            raise ValueError(refused)
        if parts:
            display.display(reset_text.listed(hosts, options["control"], parts))
            yes = self._task.check_mode or self.given("yes", task_vars)
            if not agreement.is_given(f"Remove {names(parts)} on {count(len(hosts), 'host')}?", yes):
                raise ValueError("Nothing was removed on any host.")
        if refused:
            display.display(inventory_in_use.commands(reset_text.would_refuse(refused)))
        return {"pieces": parts}
