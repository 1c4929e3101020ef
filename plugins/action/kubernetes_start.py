# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import starts
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods


class ActionModule(ActionBase):
    """Writes the ConfigMap of a job, by which of several starts at the same time one is chosen."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "config": {"type": "dict", "required": True},
                "version": {"type": "str", "default": ""},
                "starting": {"type": "bool", "default": True},
            }
        )
        if self._task.check_mode:
            return {"changed": True}
        try:
            api, _chosen = jobs_in_pods.connect(options)
            version = options["version"]
            made = starts.write(api, options["job"], options["config"], version, starting=options["starting"])
        except ValueError as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}
        about = {key: made["metadata"][key] for key in ("name", "uid", "resourceVersion")}
        return {
            "changed": True,
            "method": "patch" if version else "create",
            "version": about["resourceVersion"],
            "result": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about},
        }
