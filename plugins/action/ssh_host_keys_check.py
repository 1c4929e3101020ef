# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

HOST = {
    "host": {"type": "str", "required": True},
    "facts": {"type": "dict", "required": True},
    "known_hosts": {"type": "str"},
}


class ActionModule(ControlNodeAction):
    """Compares the host keys of all hosts on the control node. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "hosts": {"type": "list", "elements": "dict", "required": True, "options": HOST},
        "accept_changed": {"type": "list", "elements": "str", "default": []},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        shown = {host["host"]: ssh_mesh.host_keys(host["facts"]) for host in options["hosts"]}
        known_hosts = [base64.b64decode(host["known_hosts"] or "").decode() for host in options["hosts"]]
        changed = ssh_mesh.changed_hosts(known_hosts, shown, options["accept_changed"])
        refusal = ssh_mesh.refusal(shown, changed)
        if refusal:
            return {"failed": True, "changed_hosts": changed, "msg": refusal}
        return {"host_keys": shown, "changed_hosts": []}
