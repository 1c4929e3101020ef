# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible import context
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import settings
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()
HOST = {
    "host": {"type": "str", "required": True},
    "become": {"type": "bool"},
    "prefix": {"type": "str"},
    "cache": {"type": "str"},
    "fabric": {"type": "str"},
    "kubernetes": {"type": "raw"},
}


def kubernetes_errors(values: list[Any]) -> list[str]:
    """Return what is wrong with cluster_kubernetes, where any host has it."""
    errors = [error for value in values if value is not None for error in settings.errors(value)]
    return list(dict.fromkeys(errors))


class ActionModule(ControlNodeAction):
    """Checks the inventory's groups and variables on the control node, and shows its hosts. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "groups": {"type": "dict", "required": True},
        "hosts": {"type": "list", "elements": "dict", "options": HOST, "default": []},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        become, prefix, cache, fabric = (
            {host["host"]: host[key] for host in options["hosts"]} for key in ("become", "prefix", "cache", "fabric")
        )
        errors = [
            *inventory.errors(options["groups"]),
            *inventory.become_errors(become, bool(context.CLIARGS.get("become"))),
            *inventory.path_errors({"cluster_prefix": prefix, "cluster_cache": cache}),
            *inventory.fabric_errors(fabric),
            *kubernetes_errors([host["kubernetes"] for host in options["hosts"]]),
        ]
        if errors:
            lines = "".join(f"- {error}\n" for error in errors)
            return {"failed": True, "errors": errors, "msg": f"The inventory cannot be used:\n{lines}"}
        limit = context.CLIARGS.get("subset") or ""
        display.display(inventory.summary(options["groups"], inventory_in_use.option(), limit))
        return {"errors": []}
