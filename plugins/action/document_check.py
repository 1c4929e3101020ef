# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.plugin_utils import document


class ActionModule(ActionBase):
    """Checks on the control node how a playbook is to report. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        text = {"type": "str", "default": ""}
        _result, options = self.validate_argument_spec(
            {"format": {**text, "default": "text"}, "query": text, "output": text, "reports": {"type": "bool"}}
        )
        message = document.refusal(options["format"], options["query"], options["output"])
        if not message and options["format"] == "json" and options["reports"] is False:
            message = (
                "format: json is for playbooks/status.yml, doctor.yml, plan.yml, verify.yml, results.yml, report.yml, "
                "scale.yml, tune.yml, infer.yml, predict.yml, network.yml and manifest.yml"
            )
        return {"failed": True, "msg": message} if message else {"changed": False}
