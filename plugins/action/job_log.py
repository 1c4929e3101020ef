# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction, job_name


class ActionModule(RuntimeAction):
    """Shows the log of a job, or its progress, until it ends."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **RuntimeAction.JOB,
        "show": {"type": "str", "choices": ["log", "progress"], "default": "log"},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        job = job_name(options)
        runtime = known.having(job, self, task_vars)
        if options["show"] == "log":
            return runtime.log(job)
        return runtime.follow(job, shows_results=False)
