# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import cores_of
from ansible_collections.amx.cluster.plugins.module_utils._measure import trials, tune_request
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested, tunes


class ActionModule(ActionBase):
    """Checks the request of a tuning on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                **tunes.ARGUMENTS,
                "backend": {"type": "str", "default": "auto"},
                "cores": {"type": "raw", "default": {}},
                "write_to": {"type": "str", "choices": tunes.WRITE_TO, "default": "job"},
            }
        )
        try:
            said = requested.misspelt(list(load_extra_vars(self._loader)), tunes.OPTIONS) if context.CLIARGS else ""
            wanted = tunes.read(options)
            cores = cores_of(wanted.job, requested.plain(options["cores"]))
            if options["write_to"] == "inventory":
                tunes.variables_file((task_vars or {}).get("ansible_inventory_sources") or [])
                said = said or tunes.unheeded(wanted.job, wanted.request.vary)
            said = said or tunes.refusal(wanted, options["again"])
        except (OSError, ValueError) as error:
            said = str(error)
        if said:
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        earlier = None if options["again"] else wanted.earlier()
        content = trials.continued(earlier, wanted.request.budget_minutes) if earlier else wanted.content
        job = wanted.job
        return {
            "changed": False,
            "job": job.name,
            "path": str(wanted.path),
            "hosts": wanted.hosts,
            "made": len(content["trials"]),
            "ended": bool(content["ended"]),
            "interrupted": [earlier["running"]["job"]] if earlier and earlier.get("running") else [],
            "backends": tune_request.backends(job, options["backend"]),
            "vary": list(wanted.request.vary),
            "default": cores,
        }
