# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import verification
from ansible_collections.amx.cluster.plugins.plugin_utils import document

display = Display()


class ActionModule(ActionBase):
    """Compares on the control node what ranks observed with their plan."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                "plan": {"type": "dict", "required": True},
                "observed": {"type": "list", "elements": "dict", "required": True},
                **document.ARGUMENTS,
            }
        )
        warnings = {"warnings": verification.warnings(options["observed"])}
        differences = verification.differences(options["plan"], options["observed"])
        if options["format"] == "text":
            lines = [verification.table(options["plan"], options["observed"])]
            display.display("\n".join([*lines, *verification.loaded_besides(options["observed"])]))
        else:
            findings = [asdict(finding) for finding in verification.compare(options["plan"], options["observed"])]
            report = {"findings": findings, "differences": differences, **warnings, "observed": options["observed"]}
            try:
                document.emit(report, options)
            except (OSError, ValueError) as error:
                return {"failed": True, "msg": str(error)}
        if differences:
            return {**warnings, "failed": True, "msg": "\n".join(["Ranks do not run as planned:", *differences])}
        return {**warnings, "changed": False}
