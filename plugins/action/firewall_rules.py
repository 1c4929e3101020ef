# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Derives firewall rules on the control node. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "addresses": {"type": "list", "elements": "str", "default": []},
        "admin_networks": {"type": "list", "elements": "str", "default": []},
        "ssh_port": {"type": "int", "default": 22},
        "allow": {"type": "list", "elements": "dict", "default": []},
        "recorded": {"type": "list", "elements": "dict", "default": []},
        "connection": {"type": "str", "default": ""},
        "zones": {"type": "list", "elements": "str", "default": []},
        "backend": {"type": "str", "choices": list(firewall.BACKENDS), "default": "nftables"},
        "listed": {"type": "str", "default": ""},
        "listening": {"type": "str", "default": ""},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        rules = firewall.rules(options["addresses"], options["admin_networks"], options["ssh_port"], options["allow"])
        zoned = firewall.in_zones(rules, options["zones"])
        answer = firewall.changes(options["backend"], zoned, options["recorded"], options["listed"])
        removed = None if options["backend"] == "nftables" else answer["stale"]
        return {
            **answer,
            "rules": [firewall.written(rule) for rule in answer["rules"]],
            "stale": [firewall.written(rule) for rule in answer["stale"]],
            "cut_off": firewall.cut_off(rules, options["connection"], removed),
            "cut_services": firewall.cut_services(options["listening"], options["allow"], options["ssh_port"]),
            "mark": firewall.MARK,
        }
