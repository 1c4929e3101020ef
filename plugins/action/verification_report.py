# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import verification
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Compares the plan of a job with what its ranks observed, which their job directory on the task's host has."""

    _requires_connection = True
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "plan": {"type": "dict", "required": True},
        "observed": {"type": "list", "elements": "dict"},
        "directory": {"type": "path"},
        **document.ARGUMENTS,
    }

    def read(self, path: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON in a file on the task's host. Raises ValueError."""
        source = {"src": path}
        read = self._execute_module(module_name="ansible.legacy.slurp", module_args=source, task_vars=task_vars)
        if read.get("failed"):
            raise ValueError(str(read.get("msg")))
        return dict(json.loads(base64.b64decode(read["content"])))

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plan = Plan.from_json(options["plan"])
        if options["observed"] is None:
            options["observed"] = self.read(f"{options['directory']}/{verification.OBSERVED}", task_vars)["ranks"]
        if not plan.hosts:  # it was made where the ranks started
            plan = Plan.from_json(self.read(f"{options['directory']}/plan.json", task_vars))
        warnings = {
            "warnings": [
                *verification.warnings(options["observed"]),
                *verification.memory_elsewhere(plan, options["observed"]),
            ]
        }
        differences = verification.differences(plan, options["observed"])
        if options["format"] == "text":
            lines = [verification.table(plan, options["observed"])]
            screen.show("\n".join([*lines, *verification.loaded_besides(options["observed"])]))
        else:
            findings = [asdict(finding) for finding in verification.compare(plan, options["observed"])]
            report = {"findings": findings, "differences": differences, **warnings, "observed": options["observed"]}
            document.emit(report, options)
        if differences:
            return {**warnings, "failed": True, "msg": "\n".join(["Ranks do not run as planned:", *differences])}
        return warnings
