# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._jobs import results
from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import first_failure
from ansible_collections.amx.cluster.plugins.plugin_utils import following, inventory_in_use

display = Display()


class ActionModule(ActionBase):
    """Runs the module job_info on the head, again and again when it is to follow the job."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asked = dict(self._task.args)
        follow = self._templar.template(asked.get("follow", False)) in (True, "true", "yes", "True")
        if follow:
            return self.follow(asked, task_vars)
        seen = self._execute_module(module_name="amx.cluster.job_info", module_args=asked, task_vars=task_vars)
        return self._with_commands(seen, task_vars)

    @staticmethod
    def _with_commands(seen: dict[str, Any], task_vars: dict[str, Any] | None, more: str = "") -> dict[str, Any]:
        """Return a result in whose message playbooks are the commands that run them."""
        if "msg" not in seen:
            return seen
        return {**seen, "msg": inventory_in_use.commands(f"{seen['msg']}{more}", task_vars)}

    def follow(self, asked: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Show what the job does until it ends."""
        name = PurePosixPath(asked["path"]).name
        progress = following.Progress(name, restarts_only=asked.get("show") == "log")
        try:
            return self._follow(name, progress, asked, task_vars)
        finally:
            progress.close()

    def _follow(
        self, name: str, progress: following.Progress, asked: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        interval = float(asked.get("interval", 2))
        come_back = f"Ctrl-C leaves job {name} running. Its log: playbooks/logs.yml -e job={name}"
        offset, log = 0, ""
        while True:
            module_args = {**asked, "follow": False, "log_offset": offset}
            try:
                seen = self._execute_module(
                    module_name="amx.cluster.job_info", module_args=module_args, task_vars=task_vars
                )
            except AnsibleConnectionFailure as error:
                seen = {"unreachable": True, "msg": str(error)}
            if seen.get("unreachable"):
                words = f"The job does not need this connection; playbooks/status.yml -e job={name} shows its status."
                return self._with_commands({"msg": "", **seen}, task_vars, f"\n{words}")
            if seen.get("failed"):
                return self._with_commands(seen, task_vars)
            ended = seen["status"]["state"] != "running"
            if come_back and not ended:
                display.display(inventory_in_use.commands(come_back, task_vars))
            come_back = ""
            for line in seen["log"].splitlines():
                (display.display if asked.get("show") == "log" else display.v)(line)
            offset, log = seen["log_offset"], log + seen["log"]
            progress.show(seen)
            if ended and not seen["log"]:
                summary = self._templar.template(asked.get("summary", True)) in (True, "true", "yes", "True")
                return self.conclude(seen, log, summary, task_vars)
            if not ended:
                time.sleep(interval)

    @staticmethod
    def conclude(seen: dict[str, Any], log: str, summary: bool, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Show the results; a job that failed fails the task with what its log tells."""
        status, outcome = seen["status"], seen["outcome"]
        if outcome and summary:
            display.display(results.table(outcome))
        if status["state"] == "succeeded":
            return {"changed": False, "status": status, "outcome": outcome, "progress": seen["progress"]}
        told = inventory_in_use.commands(following.reason(status), task_vars)
        if status["state"] == "failed" and status.get("returncode"):
            told += f"\n{first_failure(log)}"
        return {"changed": False, "failed": True, "status": status, "msg": told}
