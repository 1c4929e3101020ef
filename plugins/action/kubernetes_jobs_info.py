# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, jobs_text, live
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods

display = Display()


class ActionModule(ActionBase):
    """Gathers the jobs that a cluster has objects of, on the control node. No host is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "on_hosts": {"type": "bool", "default": False},
                "required": {"type": "bool", "default": False},
                "live": {"type": "bool", "default": False},
            }
        )
        nothing: dict[str, Any] = {"changed": False, "jobs": [], "meant": False, "missing": "", "problem": ""}
        try:
            found = {**nothing, **self.gather(options)}
            return {**found, "missing": inventory_in_use.commands(found["missing"], task_vars)}
        except ValueError as error:
            text = inventory_in_use.commands(str(error), task_vars)
            if options["required"] and not options["on_hosts"]:
                return {"failed": True, "msg": text}
            return {**nothing, "problem": text}

    @staticmethod
    def gather(options: dict[str, Any]) -> dict[str, Any]:
        """Return the jobs, and whether the one that was named is meant. Raises ValueError."""
        api, chosen = jobs_in_pods.connect(options)
        name = options["job"]
        found = live.gather(api, chosen.namespace, jobs_in_pods.object_name(name) if name else "")
        missing = "" if found or not (name or options["required"]) else jobs_in_pods.missing(api, chosen, name)
        if missing and options["required"] and not options["on_hosts"]:
            raise ValueError(missing)
        if options["on_hosts"] and found and name:
            display.display(jobs_text.both(name, chosen.namespace))
        entries = []
        for one in found:
            said, problem = live.live(api, one) if options["live"] else ({}, "")
            entry = jobs.entry(one, said)
            if problem:
                entry["status"]["notes"] = [*entry["status"].get("notes", []), f"its progress is not known: {problem}"]
            entries.append(entry)
        return {"jobs": entries, "meant": bool(found) and not options["on_hosts"], "missing": missing}
