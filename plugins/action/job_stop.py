# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction, job_name


class ActionModule(RuntimeAction):
    """Stops a job by the runtime that has it; on further hosts, ends what it has left there."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {**RuntimeAction.JOB, "rest": {"type": "bool", "default": False}}

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        job = job_name(options)
        if options["rest"]:
            ended = [line for runtime in known.configured(self, task_vars) for line in runtime.stop_rest(job)]
            return {"changed": bool(ended), "ended": ended}
        runtime = known.having(job, self, task_vars)
        stopped = runtime.stop(job)
        done = f"{'would be' if self._task.check_mode else 'was'} stopped" if stopped.was_running else "was not running"
        return {
            "changed": stopped.was_running or bool(stopped.ended),
            "ended": list(stopped.ended),
            "hosts": list(stopped.hosts),
            "missing": inventory_in_use.commands(stopped.missing),
            "text": f"job {job} {done}; {stopped.what}",
            "note": stopped.note,
        }
