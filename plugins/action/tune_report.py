# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import tuning, tuning_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, requested, tunes
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Shows a tuning on the control node, and writes its winner to the job file where that is wanted."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "path": {"type": "path", "required": True},
        "file": {"type": "path", "required": True},
        "override": {"type": "raw"},
        "write": {"type": "bool", "default": False},
        "write_to": {"type": "str", "choices": tunes.WRITE_TO, "default": "job"},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        content = requested.recorded(Path(options["path"]))
        changes = self.changes(content, options, task_vars)
        if options["write"] and changes:
            self.write(changes, Path(options["file"]))
        wrote = ", ".join(str(change.path) for change in changes) if options["write"] else ""
        content = {**content, "diff": "".join(change.diff for change in changes)}
        if options["format"] == "text":
            text = tuning_text.table(content, options["path"], wrote, options["write_to"])
            display.display(inventory_in_use.commands(text, task_vars))
        else:
            document.emit(content, options)
        if tuning.job_failed(content):
            raise ValueError(f"job {content['job']} was not tuned: {content['notes'][0]}")
        return {"changed": bool(wrote)}

    def changes(
        self, content: dict[str, Any], options: dict[str, Any], task_vars: dict[str, Any]
    ) -> list[tunes.Change]:
        """Return the changes of files that make the winner; of the job file, only if it still is what was tuned."""
        if not content["diff"]:
            return []
        to_inventory = options["write_to"] == "inventory"
        if not to_inventory and not options["write"]:
            return [tunes.Change(Path(options["file"]), "", content["diff"], "")]  # as it was found then
        job = load(Path(options["file"]), requested.plain(options["override"]))
        if tunes.diff(content, job) != content["diff"]:
            raise ValueError(
                f"{job.file} has been changed since it was tuned: apply the diff in {options['path']} yourself"
            )
        sources = task_vars.get("ansible_inventory_sources") or []
        return tunes.changes(content, job, tunes.variables_file(sources) if to_inventory else None)

    def write(self, changes: list[tunes.Change], job_file: Path) -> None:
        """Apply the changes; the job file must still be one after them."""
        if self._task.check_mode:
            return
        for change in changes:
            _io.write_text(change.path, change.after, change.path.stat().st_mode & 0o777)
        load(job_file)
