# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import cores_of
from ansible_collections.amx.cluster.plugins.module_utils._measure import tuning_request
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, tunes
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks the request of a tuning on the control node."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **tunes.ARGUMENTS,
        "backend": {"type": "str", "default": "auto"},
        "cores": {"type": "raw", "default": {}},
        "write_to": {"type": "str", "choices": tunes.WRITE_TO, "default": "job"},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = tunes.read(options)
        cores = cores_of(wanted.job, requested.plain(options["cores"]))
        requested.refuse_misspelt(self._loader, tunes.OPTIONS)
        if options["write_to"] == "inventory":
            tunes.variables_file(task_vars.get("ansible_inventory_sources") or [])
            unheeded = tunes.unheeded(wanted.job, wanted.request.vary)
            if unheeded:
                raise ValueError(unheeded)
        wanted.refuse(options["again"])
        earlier = None if options["again"] else wanted.earlier()
        content = wanted.continued(earlier) if earlier else wanted.content
        job = wanted.job
        return {
            "job": job.name,
            "path": str(wanted.path),
            "hosts": wanted.hosts,
            "made": len(content["trials"]),
            "ended": bool(content["ended"]),
            "interrupted": [earlier["running"]["job"]] if earlier and earlier.get("running") else [],
            "backends": tuning_request.backends(job, options["backend"]),
            "vary": list(wanted.request.vary),
            "default": cores,
        }
