# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._hosts import changes
from ansible_collections.amx.cluster.plugins.plugin_utils import agreement, inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Shows what site.yml will change on hosts, and asks whether it may, where there is a terminal."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "hosts": {"type": "dict", "required": True},
        "head": {"type": "str", "required": True},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        missing, hosts = {}, task_vars["groups"]["cluster"]
        for host, seen in options["hosts"].items():
            requested = changes.Requested.from_json(seen["requested"])
            own = list(changes.of_host(requested, seen["made"], host == options["head"], not hosts[1:]))
            missing[host] = [*own, *(changes.beside(seen["services"] or []) if own else [])]
        text = changes.text(missing)
        if text:
            display.display(inventory_in_use.commands(text))
        if text and not self._task.check_mode and not agreement.is_given("Go on?", self.given("yes", task_vars)):
            raise ValueError("Nothing was changed on any host.")
        return {}
