# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import verification

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
            }
        )
        lines = [verification.table(options["plan"], options["observed"])]
        display.display("\n".join([*lines, *verification.loaded_besides(options["observed"])]))
        warnings = {"warnings": verification.warnings(options["observed"])}
        differences = verification.differences(options["plan"], options["observed"])
        if differences:
            return {**warnings, "failed": True, "msg": "\n".join(["Ranks do not run as planned:", *differences])}
        return {**warnings, "changed": False}
