# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh


class ActionModule(ActionBase):
    """Compares the host keys of all hosts on the control node. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        host = {
            "host": {"type": "str", "required": True},
            "facts": {"type": "dict", "required": True},
            "known_hosts": {"type": "str"},
        }
        _result, options = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "dict", "required": True, "options": host},
                "accept_changed": {"type": "list", "elements": "str", "default": []},
            }
        )
        shown = {one["host"]: ssh_mesh.host_keys(one["facts"]) for one in options["hosts"]}
        known_hosts = [base64.b64decode(one["known_hosts"] or "").decode() for one in options["hosts"]]
        try:
            changed = ssh_mesh.changed_hosts(known_hosts, shown, options["accept_changed"])
        except ValueError as error:
            return {"failed": True, "msg": str(error)}
        refusal = ssh_mesh.refusal(shown, changed)
        if refusal:
            return {"failed": True, "changed_hosts": changed, "msg": refusal}
        return {"changed": False, "host_keys": shown, "changed_hosts": []}
