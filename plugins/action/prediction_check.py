# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, predictions, requested


class ActionModule(ActionBase):
    """Checks the request of a prediction on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(argument_spec=predictions.ARGUMENTS)
        try:
            names = list(load_extra_vars(self._loader)) if context.CLIARGS else []
            said = requested.misspelt(names, predictions.OPTIONS)
            if not said:
                wanted = predictions.read(options)
                said = predictions.refusal(wanted, options["again"])
        except (OSError, ValueError) as error:
            said = str(error)
        if said:
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        return {
            "changed": False,
            "name": wanted.name,
            "trained_by": wanted.trained_by,
            "model": wanted.model,
            "data": wanted.data,
            "hosts": wanted.hosts,
            "directory": str(wanted.folder),
        }
