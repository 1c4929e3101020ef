# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action about a job, or all jobs, wherever they run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import JobEnded


class RuntimeAction(ControlNodeAction):
    """Action whose task is that of the head, which a runtime contacts where it has to."""

    # A job that was started, by its name or its file.
    JOB: ClassVar[dict[str, Any]] = {"job": {"type": "str", "default": ""}, "override": {"type": "raw"}}
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            return super().run(tmp, task_vars)
        except JobEnded as error:
            return {"changed": False, "failed": True, **error.ended, "msg": inventory_in_use.commands(str(error))}


def job_name(options: Mapping[str, Any]) -> str:
    """Return the name of the job that was named. options: see RuntimeAction.JOB. Raises ValueError."""
    named = str(options["job"])
    if not named.endswith((".yml", ".yaml")):
        return named
    return load(Path(named), json.loads(json.dumps(options["override"]))).name
