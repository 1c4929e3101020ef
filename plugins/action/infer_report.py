# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._measure import inference, inference_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use

display = Display()


class ActionModule(ActionBase):
    """Shows an inference benchmark on the control node."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={"path": {"type": "path", "required": True}, **document.ARGUMENTS}
        )
        content = _io.read_json(Path(options["path"]))
        if content is None:
            return {"failed": True, "msg": f"{options['path']} is missing, or is not complete JSON"}
        try:
            if options["format"] == "text":
                display.display(inventory_in_use.commands(inference_text.report(content, options["path"]), task_vars))
            else:
                document.emit(content, options)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": str(error)}
        said = inference.failed(content)
        if said:
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        return {"changed": False}
