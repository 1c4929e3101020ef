# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks on the control node how a playbook is to report. No host is contacted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **{name: {"type": "str"} for name in document.ARGUMENTS},
        "reports": {"type": "bool"},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        message = inventory_in_use.commands(document.refusal(options["format"], options["query"], options["output"]))
        if not message and options["format"] == "json" and options["reports"] is False:
            message = (
                "format: json is for playbooks/status.yml, doctor.yml, plan.yml, verify.yml, results.yml, report.yml, "
                "scale.yml, tune.yml, infer.yml, load.yml, predict.yml, serve.yml, network.yml and manifest.yml"
            )
        # Not raised: the playbooks in it are a list, not commands.
        return {"failed": True, "msg": message} if message else {}
