# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall


class ActionModule(ActionBase):
    """Derives firewall rules on the control node. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "addresses": {"type": "list", "elements": "str", "default": []},
                "admin_networks": {"type": "list", "elements": "str", "default": []},
                "ssh_port": {"type": "int", "default": 22},
                "allow": {"type": "list", "elements": "dict", "default": []},
                "recorded": {"type": "list", "elements": "dict", "default": []},
                "connection": {"type": "str", "default": ""},
                "zones": {"type": "list", "elements": "str", "default": []},
            }
        )
        try:
            rules = firewall.rules(
                options["addresses"], options["admin_networks"], options["ssh_port"], options["allow"]
            )
            cut_off = firewall.cut_off(rules, options["connection"])
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        rules = firewall.in_zones(rules, options["zones"])
        stale = firewall.stale(options["recorded"], rules)
        return {
            "changed": False,
            "rules": [firewall.written(rule) for rule in rules],
            "stale": [firewall.written(rule) for rule in stale],
            "cut_off": cut_off,
        }
