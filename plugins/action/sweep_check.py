# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested, sweeps


class ActionModule(ActionBase):
    """Checks the request of a sweep on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(argument_spec=sweeps.ARGUMENTS)
        try:
            said = requested.misspelt(list(load_extra_vars(self._loader)), sweeps.OPTIONS) if context.CLIARGS else ""
            wanted = sweeps.read(options)
            said = said or sweeps.refusal(wanted, options["again"])
        except (OSError, ValueError) as error:
            said = str(error)
        if said:
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        earlier = wanted.earlier()
        content = wanted.content
        if earlier and not options["again"]:
            content = sweep.continued(earlier, content)
        return {
            "changed": False,
            "job": wanted.job.name,
            "path": str(wanted.path),
            "hosts": wanted.hosts,
            "left": [run["job"] for run in sweep.left(content)],
            "made": len(content["runs"]) - len(sweep.left(content)),
            "interrupted": sweep.interrupted(earlier or {}),
        }
