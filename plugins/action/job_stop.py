# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction, job_name


class ActionModule(RuntimeAction):
    """Stops a job by the runtime that has it; on further hosts (rest), ends what it has left there.

    stopped, ended: the result of the first, and those of the others, which are shown.
    """

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **RuntimeAction.JOB,
        "rest": {"type": "bool", "default": False},
        "stopped": {"type": "dict"},
        "ended": {"type": "list", "elements": "raw", "default": []},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if options["stopped"] is not None:
            return self.show(
                options["stopped"], [line for result in options["ended"] for line in (result or {}).get("ended") or []]
            )
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

    @staticmethod
    def show(stopped: dict[str, Any], elsewhere: list[str]) -> dict[str, Any]:
        """Show what was stopped. Raises ValueError where there is no such job, and nothing is left of one."""
        ended = [*stopped["ended"], *elsewhere]
        if stopped["missing"] and not ended:
            raise ValueError(stopped["missing"])
        note = f"; {stopped['note']}" if stopped["note"] else ""
        screen.show(f"{stopped['text']}: {', '.join(ended) or 'none'}{note}")
        return {}
