# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import json
import shutil
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._hosts import doctor

display = Display()


class ActionModule(ActionBase):
    """Judges on the control machine what every host has said; no host is asked anything."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, asked = self.validate_argument_spec(
            argument_spec={
                "answers": {"type": "dict", "required": True},
                "wanted": {"type": "dict", "default": {}},
                "format": {"type": "str", "choices": ["table", "json", "failures"], "default": "table"},
            }
        )
        wanted = doctor.Wanted(**asked["wanted"])
        findings = doctor.examine(asked["answers"], wanted)
        summary = doctor.summary(findings, len(asked["answers"]), wanted.whole)
        report = {"findings": [dataclasses.asdict(finding) for finding in findings], "summary": summary}
        failures = [finding for finding in findings if finding.severity == doctor.FAILURE]
        if asked["format"] == "json":
            display.display(json.dumps({"hosts": list(asked["answers"]), **report}))
        elif asked["format"] == "table" or failures:
            width = shutil.get_terminal_size((160, 24)).columns
            shown = findings if asked["format"] == "table" else failures
            display.display("\n".join(filter(None, ["", doctor.table(shown, width), summary])))
        if failures:
            hosts = list(dict.fromkeys(finding.host for finding in failures))
            told = "\n".join(f"- {one.host}: {one.found}. {one.advice}." for one in failures)
            return {
                **report,
                "failed": True,
                "msg": f"Nothing was changed. Before {', '.join(hosts)} can be used:\n{told}",
            }
        return {**report, "changed": False}
