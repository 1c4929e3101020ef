# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    jobs,
    live,
    objects,
    observed_pods,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.jobs import Found
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods

display = Display()


class ActionModule(ActionBase):
    """Shows the log of a pod on the control node, and follows it until the job ends."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "pod": {"type": "int", "default": 0},
                "reader": {"type": "str", "default": ""},
                "interval": {"type": "float", "default": 2},
            }
        )
        try:
            api, chosen = jobs_in_pods.connect(options, jobs_in_pods.EXEC if options["reader"] else jobs_in_pods.LOG)
            if options["reader"]:
                return self.volume(api, chosen.namespace, options)
            found = jobs_in_pods.the_job(api, chosen, options["job"])
            return self.follow(api, found, options, task_vars)
        except ValueError as error:
            again = ""
            if isinstance(error, ApiError) and not error.status and options["job"]:
                again = (
                    "\nThe job does not need this connection; when the server answers again: playbooks/logs.yml -e "
                    f"job={options['job']}"
                )
            return {"failed": True, "msg": inventory_in_use.commands(f"{error}{again}", task_vars)}

    def follow(
        self, api: Api, found: Found, options: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Show what the pod prints until the job ends. Raises ValueError."""
        shown: dict[tuple[str, int], int] = {}
        told = ""
        came_back = f"  playbooks/logs.yml -e job={options['job']} (or status.yml, stop.yml)"
        while True:
            status = jobs.status(found)
            ended = jobs.has_ended(status["state"])
            if ended and not found.pods:
                return {"changed": False, "shown": False, "status": status}
            pod = found.pod(options["pod"]) if found.pods and (ended or options["pod"] >= len(found.pods)) else None
            pod = pod or next((one for one in found.pods if observed_pods.number_of(one) == options["pod"]), None)
            begun = bool(pod and (observed_pods.is_running(pod) or observed_pods.terminated(pod)))
            if pod and begun:
                if not shown and not ended:
                    display.display(
                        f"Following the log of pod {pod['metadata']['name']}. Ctrl-C leaves the job running; "
                        "come back to it with"
                    )
                    display.display(inventory_in_use.commands(came_back, task_vars))
                self.show(api, found.namespace, pod, shown, follow=not ended)
            elif status["reason"] != told:
                told = status["reason"]
                display.display(f"  {status['state']}: {told}")
            if ended:
                return self.conclude(status, task_vars)
            time.sleep(options["interval"])
            found = next(iter(live.gather(api, found.namespace, found.name)), None) or Found(
                found.name, found.namespace
            )

    @staticmethod
    def show(api: Api, namespace: str, pod: Any, shown: dict[tuple[str, int], int], *, follow: bool) -> None:
        """Print the lines of the pod's container that were not shown before. shown: how many were, by container."""
        container = observed_pods.container_of(pod)
        key = (pod["metadata"]["uid"], observed_pods.restarts(pod))
        before = shown.setdefault(key, 0)
        try:
            for place, line in enumerate(api.log(namespace, pod["metadata"]["name"], container, follow)):
                if place >= before:
                    display.display(line)
                    shown[key] = place + 1
        except ApiError as error:
            if error.status not in (0, 400, 404):
                raise
            # The connection was lost, the container is being replaced, or its pod was deleted: what follows shows
            # whether the job goes on.

    @staticmethod
    def volume(api: Api, namespace: str, options: dict[str, Any]) -> dict[str, Any]:
        """Show the log that is on the volume, by the reader pod. Raises ValueError."""
        name = jobs_in_pods.object_name(options["job"])
        pod = options["reader"]
        found = next(iter(live.gather(api, namespace, name)), None)
        start = found.start if found else ""
        if not start:
            start = live.newest(live.ask(api, namespace, pod, objects.READS, ["list"], live.PACKING)["jobs"], name)
        command = [*interface.PROGRAM, "log", f"{name}-{start}"]
        code, out, errors = api.exec(namespace, pod, objects.READS, command, live.PACKING)
        if code:
            raise ValueError((errors.strip() or f"exit code {code}").splitlines()[-1].removeprefix("amx.cluster: "))
        display.display(f"The log on the volume, jobs/{name}-{start}:")
        for line in out.splitlines():
            display.display(line)
        return {"changed": False, "shown": True}

    @staticmethod
    def conclude(status: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Return how the job ended; one that did not succeed fails the task."""
        text = f"job {status['job']} {status['state']}" + (f": {status['reason']}" if status["reason"] else "")
        if status["state"] == "succeeded":
            display.display(text)
            return {"changed": False, "shown": True, "status": status}
        return {"failed": True, "shown": True, "status": status, "msg": inventory_in_use.commands(text, task_vars)}
