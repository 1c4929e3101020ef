# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import status
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use

display = Display()


class ActionModule(ActionBase):
    """Shows the status of jobs on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                "jobs": {"type": "list", "elements": "dict", "required": True},
                "ranks": {"type": "dict", "default": {}},
                "name": {"type": "str", "default": ""},
                **document.ARGUMENTS,
            }
        )
        named = options["jobs"]
        if options["name"]:
            named = [job for job in named if PurePosixPath(job["path"]).name == options["name"]]
        if options["name"] and not named:
            msg = f"no job {options['name']} was started on this cluster: playbooks/status.yml lists all jobs"
            return {"failed": True, "msg": inventory_in_use.commands(msg, task_vars)}
        if options["format"] == "json":
            try:
                document.emit(status.document(named, options["ranks"]), options)
            except (OSError, ValueError) as error:
                return {"failed": True, "msg": str(error)}
            return {"changed": False}
        if not options["name"]:
            display.display(status.overview(named))
            return {"changed": False}
        details = status.details(named[0], options["ranks"])
        display.display(inventory_in_use.commands(details, task_vars))
        return {"changed": False}
