# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure import inference
from ansible_collections.amx.cluster.plugins.plugin_utils import infers, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks the request of an inference benchmark on the control node."""

    ARGUMENTS = infers.ARGUMENTS

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = infers.read(options)
        requested.refuse_misspelt(self._loader, infers.OPTIONS)
        wanted.refuse(options["again"])
        earlier = None if options["again"] else wanted.earlier()
        running = (earlier or {}).get("running")
        return {
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
