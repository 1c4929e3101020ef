# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference
from ansible_collections.amx.cluster.plugins.plugin_utils import infers, inventory_in_use, requested


class ActionModule(ActionBase):
    """Checks the request of an inference benchmark on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(argument_spec=infers.ARGUMENTS)
        try:
            said = requested.misspelt(list(load_extra_vars(self._loader)), infers.OPTIONS) if context.CLIARGS else ""
            wanted = infers.read(options)
            said = said or infers.refusal(wanted, options["again"])
        except (OSError, ValueError) as error:
            said = str(error)
        if said:
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        earlier = None if options["again"] else wanted.earlier()
        running = (earlier or {}).get("running")
        return {
            "changed": False,
            "job": wanted.job.name,
            "path": str(wanted.path),
            "hosts": wanted.hosts,
            "models": wanted.models,
            "measured": sum(cell["state"] == "measured" for cell in (earlier or wanted.content)["cells"]),
            "ended": bool(earlier) and not inference.left(earlier or {}, wanted.request.budget),
            "interrupted": [running["job"]] if running else [],
            "instances_per_node": wanted.request.instances_per_node,
            "threads_per_instance": wanted.request.threads_per_instance,
            "reserved_cores": wanted.job.reserved_cores,
            "threads_per_core": wanted.job.threads_per_core,
        }
