# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import live, reader
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods

display = Display()


class ActionModule(ActionBase):
    """Returns a new pod by which a volume is read, or waits on the control node until it runs."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "wait_for": {"type": "str", "default": ""},
                "patience": {"type": "float", "default": 300},
            }
        )
        try:
            api, chosen = jobs_in_pods.connect(options, jobs_in_pods.READER)
            name = jobs_in_pods.object_name(options["job"]) if options["job"] else ""
            if options["wait_for"]:
                live.wait_for(api, chosen.namespace, options["wait_for"], options["patience"], told=display.display)
                return {"changed": False, "name": options["wait_for"], "namespace": chosen.namespace}
            if api.read("v1", "PersistentVolumeClaim", chosen.namespace, chosen.pvc or reader.CLAIM) is None:
                raise ValueError(
                    f"namespace {chosen.namespace} has no PersistentVolumeClaim {chosen.pvc or reader.CLAIM}: there is "
                    "no volume with files of jobs"
                )
            pod = reader.pod(chosen, reader.new_name(name), name)
            ended = reader.ended(api.list("v1", "Pod", chosen.namespace, reader.SELECTOR))
        except ValueError as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}
        described = {"pod": pod, "name": pod["metadata"]["name"], "namespace": chosen.namespace}
        return {"changed": False, **described, "ended": ended}
