# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks the request of a prediction on the control node."""

    ROLE, ARGUMENTS = "predict", predictions.ARGUMENTS

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        requested.refuse_slurm(options["hosts"], task_vars)
        requested.refuse_misspelt(self._loader, table.BY_NAME["predict"].names)
        wanted = predictions.read(options)
        refused = predictions.refusal(wanted, options["again"])
        if refused:
            raise ValueError(refused)
        return {"request": wanted.to_json()}
