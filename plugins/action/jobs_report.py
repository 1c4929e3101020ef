# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._jobs import status
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import jobs_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen


class ActionModule(ActionBase):
    """Shows the status of jobs on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                "jobs": {"type": "list", "elements": "dict", "required": True},
                "ranks": {"type": "dict", "default": {}},
                "name": {"type": "str", "default": ""},
                "kubernetes": {"type": "dict"},
                **document.ARGUMENTS,
            }
        )
        named = options["jobs"]
        if options["name"]:
            named = [job for job in named if PurePosixPath(job["path"]).name == options["name"]]
        more = options["kubernetes"] or {}
        in_pods, listed = more.get("jobs", []), self.of_volume(more, options["name"])
        if options["name"] and not (named or in_pods or listed):
            msg = more.get("missing") or (
                f"no job {options['name']} was started on this cluster: playbooks/status.yml lists all jobs"
            )
            if more.get("problem"):
                msg += f"\nJobs on Kubernetes are not known: {more['problem']}"
            return {"failed": True, "msg": inventory_in_use.commands(msg, task_vars)}
        if options["format"] == "json":
            found = {"jobs": [*status.document(named, options["ranks"])["jobs"], *in_pods]}
            try:
                document.emit({**found, **({"volume": listed} if more.get("listed") else {})}, options)
            except (OSError, ValueError) as error:
                return {"failed": True, "msg": str(error)}
            return {"changed": False}
        text = self.text(options, named, in_pods, listed)
        screen.show(inventory_in_use.commands(text, task_vars))
        if more.get("problem"):
            screen.show(f"Jobs on Kubernetes are not known: {more['problem']}")
        return {"changed": False}

    @staticmethod
    def of_volume(more: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """Return the directories on the volume that are shown: all, or those of the job."""
        names = {name, *(job["name"] for job in more.get("jobs", []))}
        return [one for one in more.get("volume", []) if not name or one["name"] in names]

    @staticmethod
    def text(
        options: dict[str, Any],
        named: list[dict[str, Any]],
        in_pods: list[dict[str, Any]],
        listed: list[dict[str, Any]],
    ) -> str:
        """Return the table of all jobs, or one job in full."""
        now = datetime.now(timezone.utc)
        if options["kubernetes"] is None:
            if options["name"]:
                return status.details(named[0], options["ranks"], screen.current())
            return status.overview(named, screen.current())
        if not options["name"]:
            found = [jobs_text.overview(named, in_pods, now)]
        elif named:
            found = [status.details(named[0], options["ranks"], screen.current())]
            found += [jobs_text.both(options["name"], in_pods[0]["kubernetes"]["namespace"])] if in_pods else []
        else:
            found = [jobs_text.details(in_pods[0], now)] if in_pods else []
        if options["kubernetes"].get("listed"):
            found.append(jobs_text.volume_table(listed))
        return "\n".join(found)
