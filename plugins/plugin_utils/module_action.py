# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action plugin for modules that recommend a playbook when they fail: hosts do not know the inventory in use."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use


class ModuleAction(ActionBase):
    """Runs the task's module on the host; a playbook that its error names becomes the command that runs it."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return self.run_module(dict(self._task.args), task_vars)

    def run_module(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Return the module's result for these options."""
        result = dict(self._execute_module(module_args=options, task_vars=task_vars))
        if result.get("failed") and "msg" in result:
            full = disk_problem(str(result["msg"]), str((task_vars or {}).get("inventory_hostname", "this host")))
            result["msg"] = full or inventory_in_use.commands(str(result["msg"]))
        return result
