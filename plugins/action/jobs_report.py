# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, status
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import jobs_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Shows the status of jobs on the control node."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "jobs": {"type": "list", "elements": "dict", "required": True},
        "ranks": {"type": "dict", "default": {}},
        "removed": {"type": "dict", "default": {}},
        "name": {"type": "str", "default": ""},
        "kubernetes": {"type": "dict"},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        without = {host: files for host, files in options["removed"].items() if files is not None}
        named = [status.without_secrets(job, without) for job in options["jobs"]]
        if options["name"]:
            named = [job for job in named if PurePosixPath(job["path"]).name == options["name"]]
        more = options["kubernetes"] or {}
        in_pods, listed = more.get("jobs", []), self.of_volume(more, options["name"])
        if options["name"] and not (named or in_pods or listed):
            msg = more.get("missing") or directory.NO_JOB.format(options["name"])
            if more.get("problem"):
                msg += f"\nJobs on Kubernetes are not known: {more['problem']}"
            raise ValueError(msg)
        if options["format"] == "json":
            found = {"jobs": [*status.document(named, options["ranks"])["jobs"], *in_pods]}
            document.emit({**found, **({"volume": listed} if more.get("listed") else {})}, options)
            return {}
        for host, files in without.items():
            if files:
                screen.show(f"{host} had secrets of ended jobs, which were removed: {', '.join(files)}")
        text = self.text(options, named, in_pods, listed)
        screen.show(inventory_in_use.commands(text, task_vars))
        if more.get("problem"):
            screen.show(f"Jobs on Kubernetes are not known: {more['problem']}")
        return {}

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
            found = [status.overview([*named, *in_pods], screen.current(), now)]
        elif named:
            found = [status.details(named[0], options["ranks"], screen.current())]
            found += [jobs_text.both(options["name"], in_pods[0]["kubernetes"]["namespace"])] if in_pods else []
        else:
            found = [jobs_text.details(in_pods[0], now)] if in_pods else []
        if options["kubernetes"].get("listed"):
            found.append(jobs_text.volume_table(listed))
        return "\n".join(found)
