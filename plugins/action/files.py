# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set


class ActionModule(ActionBase):
    """Runs the module files on the host and sends what it finds wanting, through the connection that is open."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asked = dict(self._task.args)
        source = asked.pop("source", None)
        if not source:
            return self._look(asked, task_vars)
        seen = self._look({**asked, "whole": False}, task_vars)
        if seen.get("failed") or seen.get("unreachable"):
            return seen
        wanting = seen["wanting"]
        seen.update(changed=seen["changed"] or bool(wanting), sent_bytes=0)
        if not wanting or self._task.check_mode:
            return seen
        here = Path(source).expanduser()
        sent = [entry for entry in asked["files"] if entry["file"] in wanting]
        # Damaged here, it would be damaged there: told before it has crossed the network.
        broken = file_set.changed(here, sent, file_set.Known(None))
        if broken:
            told = ", ".join(f"{file} {what}" for file, what in sorted(broken.items()))
            return {
                "failed": True,
                "msg": f"on the control machine, in {here}: {told}; remove this folder there and run again, "
                "it is collected anew",
            }
        for entry in sent:
            self._connection.put_file(str(here / entry["file"]), f"{asked['path']}/{entry['file']}")
            seen["sent_bytes"] += entry["bytes"]
        again = self._look({**asked, "whole": True}, task_vars)
        return again if again.get("failed") or again.get("unreachable") else seen

    def _look(self, module_args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        return dict(self._execute_module(module_name="amx.cluster.files", module_args=module_args, task_vars=task_vars))
