# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import trials, tune_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, sweeps, tunes

display = Display()


class ActionModule(ActionBase):
    """Shows a tuning on the control node, and writes its winner to the job file where that is wanted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "path", "required": True},
                "file": {"type": "path", "required": True},
                "override": {"type": "raw"},
                "write": {"type": "bool", "default": False},
                **document.ARGUMENTS,
            }
        )
        content = _io.read_json(Path(options["path"]))
        if content is None:
            return {"failed": True, "msg": f"{options['path']} is missing, or is not complete JSON"}
        try:
            wrote = self.write(content, options) if options["write"] and content["diff"] else ""
            if options["format"] == "text":
                display.display(inventory_in_use.commands(tune_text.table(content, options["path"], wrote), task_vars))
            else:
                document.emit(content, options)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": str(error)}
        if trials.job_failed(content):
            said = f"job {content['job']} was not tuned: {content['notes'][0]}"
            return {"failed": True, "msg": inventory_in_use.commands(said, task_vars)}
        return {"changed": bool(wrote)}

    def write(self, content: dict[str, Any], options: dict[str, Any]) -> str:
        """Apply the diff to the job file, which must still be what was tuned; return its path."""
        job = load(Path(options["file"]), sweeps.plain(options["override"]))
        now, after = tunes.diff(content, job)
        if now != content["diff"]:
            raise ValueError(
                f"{job.file} has been changed since it was tuned: apply the diff in {options['path']} yourself"
            )
        if not self._task.check_mode:
            _io.write_text(job.file, after, job.file.stat().st_mode & 0o777)
            load(job.file)
        return str(job.file)
