# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, sweeps
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks the request of a sweep on the control node."""

    ARGUMENTS = sweeps.ARGUMENTS

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = sweeps.read(options)
        requested.refuse_misspelt(self._loader, sweeps.OPTIONS)
        wanted.refuse(options["again"])
        earlier = wanted.earlier()
        content = wanted.continued(earlier) if earlier and not options["again"] else wanted.content
        return {
            "job": wanted.job.name,
            "path": str(wanted.path),
            "hosts": wanted.hosts,
            "left": [run["job"] for run in sweep.left(content)],
            "made": len(content["runs"]) - len(sweep.left(content)),
            "interrupted": sweep.interrupted(earlier or {}),
        }
