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
from ansible_collections.amx.cluster.plugins.module_utils._jobs.progress import describe, describe_hosts, first_failure
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use

display = Display()


class ActionModule(ActionBase):
    """Runs the module job_info on the head, again and again when it is to follow the job."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asked = dict(self._task.args)
        follow = self._templar.template(asked.get("follow", False)) in (True, "true", "yes", "True")
        if not follow:
            return self._execute_module(module_name="amx.cluster.job_info", module_args=asked, task_vars=task_vars)
        return self.follow(asked, task_vars)

    def follow(self, asked: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Show what the job does until it ends."""
        interval = float(asked.get("interval", 2))
        name = PurePosixPath(asked["path"]).name
        display.display(f"Following {asked['path']}/log. Ctrl-C leaves the job running; come back to it with")
        come_back = f"  playbooks/logs.yml -e job={name} (or status.yml, stop.yml)"
        display.display(inventory_in_use.commands(come_back, task_vars))
        offset, log, shown, due = 0, "", "", 0.0
        ranks: dict[str, Any] = {}
        notes = 0
        began = time.monotonic()
        while True:
            module_args = {**asked, "follow": False, "log_offset": offset}
            try:
                seen = self._execute_module(
                    module_name="amx.cluster.job_info", module_args=module_args, task_vars=task_vars
                )
            except AnsibleConnectionFailure as error:
                seen = {"unreachable": True, "msg": str(error)}
            if seen.get("failed") or seen.get("unreachable"):
                words = f"The job does not need this connection; playbooks/status.yml -e job={name} shows its status."
                return {**seen, "msg": f"{seen.get('msg', '')}\n{inventory_in_use.commands(words, task_vars)}"}
            for line in seen["log"].splitlines():
                (display.display if asked.get("show") == "log" else display.v)(line)
            offset, log = seen["log_offset"], log + seen["log"]
            progress = describe(seen["progress"]) if seen["progress"] else ""
            ended = seen["status"]["state"] != "running"
            for note in seen["status"].get("notes", [])[notes:]:
                display.display(f"  restarted: {note}")
            notes = len(seen["status"].get("notes", []))
            news = asked.get("show") != "log" and progress not in ("", shown)
            if news and (ended or time.monotonic() >= due):
                display.display(f"  {progress}")
                hosts = describe_hosts(ranks, seen["ranks"])
                if hosts and not ended:
                    display.display(f"    {hosts}")
                shown, ranks = progress, seen["ranks"]
                due = time.monotonic() + self.pause(time.monotonic() - began)
            if ended and not seen["log"]:
                summary = self._templar.template(asked.get("summary", True)) in (True, "true", "yes", "True")
                return self.conclude(seen, log, summary, task_vars)
            if not ended:
                time.sleep(interval)

    @staticmethod
    def pause(elapsed: float) -> float:
        """Return the seconds between two lines of progress: a job that has run for long says less often how it goes."""
        return min(60.0, max(5.0, elapsed / 20))

    @staticmethod
    def conclude(seen: dict[str, Any], log: str, summary: bool, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Show the results; a job that failed fails the task with what its log tells."""
        status, outcome = seen["status"], seen["outcome"]
        if outcome and summary:
            display.display(results.table(outcome))
        if status["state"] == "succeeded":
            return {"changed": False, "status": status, "outcome": outcome, "progress": seen["progress"]}
        told = f"job {status['job']} {status['state']}: {status['reason']}"
        if "advice" in status:
            told += f"\n{status['advice']}"
        told = inventory_in_use.commands(told, task_vars)
        if status["state"] == "failed" and status.get("returncode"):
            told += f"\n{first_failure(log)}"
        return {"changed": False, "failed": True, "status": status, "msg": told}
