# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, live, observed_pods
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.jobs import Found
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods

display = Display()


class ActionModule(ActionBase):
    """Has the supervisor in a job's first pod end the job, and returns the objects that are to be deleted then."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "patience": {"type": "float", "default": 150},
                "remove": {"type": "bool", "default": False},
            }
        )
        try:
            api, chosen = jobs_in_pods.connect(options)
            found = jobs_in_pods.the_job(api, chosen, options["job"])
            return self.stop(api, found, options)
        except ValueError as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}

    def stop(self, api: Api, found: Found, options: dict[str, Any]) -> dict[str, Any]:
        """Stop the job, and return what became of it. Raises ValueError."""
        said, _problem = live.live(api, found)
        before = jobs.status(found, said)
        was_running = not jobs.has_ended(before["state"])
        objects = (
            live.everything(api, found.namespace, found.name) if options["remove"] else jobs.running_objects(found)
        )
        # Where nothing was created yet that runs pods, the note ends the start.
        notes = bool(found.config) and not options["remove"] and (was_running or bool(objects))
        self.check(api, found.namespace, objects, notes=notes)
        after = {"state": before["state"], "reason": before["reason"]}
        if was_running:
            # Deleting its objects ends a job that does not end by itself.
            after = {"state": "stopped", "reason": "it was stopped on request"}
            if not self._task.check_mode:
                after.update(self.end(api, found, options["patience"]))
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return {
            "changed": was_running or bool(objects),
            "was_running": was_running,
            "state": after["state"],
            "namespace": found.namespace,
            "name": found.name,
            "objects": objects,
            "config": notes,
            "annotations": {
                jobs.STATE: str(after["state"]),
                jobs.REASON: str(after["reason"]),
                jobs.ENDED: str(before.get("ended") or now),
            },
            "directory": found.directory,
            "lines": [f"{one['kind']} {one['name']}" for one in objects],
        }

    @staticmethod
    def check(api: Api, namespace: str, objects: list[dict[str, str]], *, notes: bool) -> None:
        """Raise ValueError unless this user may delete all of these objects. notes: and change the job's ConfigMap."""
        kinds = {one["kind"]: one["api_version"] for one in objects}
        rights = []
        for kind, version in kinds.items():
            resource = api.resource(version, kind)
            if not api.allowed("delete", resource, version.rpartition("/")[0], namespace):
                rights.append(f"delete {resource}")
        if notes and not api.allowed("patch", "configmaps", "", namespace):
            rights.append("patch configmaps")
        if rights:
            raise ValueError(
                f"context {api.context} may not {', '.join(rights)} in namespace {namespace}, nothing was stopped: "
                "have the role in roles/kubernetes/files/rbac.yml bound to its user"
            )

    @staticmethod
    def end(api: Api, found: Found, patience: float) -> dict[str, str]:
        """Have the job ended by its own supervisor; return the state and the reason that it has left, if any."""
        first = found.first_running
        if first is None:
            return {}
        pod, container = first["metadata"]["name"], observed_pods.container_of(first)
        try:
            live.ask(api, found.namespace, pod, container, ["stop"])
        except ValueError as error:
            display.display(f"The job cannot end in an orderly way, its pods are deleted: {error}")
            return {}
        until = time.monotonic() + patience
        while time.monotonic() < until:
            now = api.read("v1", "Pod", found.namespace, pod)
            if now is None:
                return {}
            # A container that has failed may have been started again meanwhile.
            if not observed_pods.is_running(now) or observed_pods.restarts(now) > observed_pods.restarts(first):
                said = observed_pods.message_of(now)
                return {key: str(said.get(key, "")) for key in ("state", "reason")} if said else {}
            time.sleep(1)
        display.display(f"The job has not ended within {patience:.0f} s, its pods are deleted")
        return {}
