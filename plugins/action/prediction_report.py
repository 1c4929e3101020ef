# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._jobs import predictions
from ansible_collections.amx.cluster.plugins.module_utils._measure import measurement
from ansible_collections.amx.cluster.plugins.module_utils._text import count, duration, now
from ansible_collections.amx.cluster.plugins.plugin_utils import document, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Verifies what was fetched of a prediction to the control node, and shows it."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "directory": {"type": "path", "required": True},
        "summary": {"type": "dict", "required": True},
        "outcome": {"type": "dict", "default": {}},
        "output_file": {"type": "str", "default": ""},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        return self.report(Path(options["directory"]), requested.plain(options))

    def report(self, directory: Path, options: dict[str, Any]) -> dict[str, Any]:
        """Complete prediction.json, copy the output to where it is wanted, and show what came of it."""
        prediction = measurement.recorded(directory / predictions.FILE)
        summary, outcome = options["summary"], options["outcome"]
        damaged = file_set.differences(directory, summary["files"])
        if damaged:
            raise ValueError(
                f"{directory} failed verification: {file_set.describe(damaged)}. Run the same command again, which "
                "fetches it once more"
            )
        output = directory / summary["files"][0]["file"]
        if options["output_file"]:
            target = Path(options["output_file"]).expanduser().absolute()
            part = target.with_name(f".{target.name}.part")
            shutil.copyfile(output, part)
            part.replace(target)
            output = target
        rejected = directory / summary["files"][1]["file"] if summary["rejected"] else None
        prediction.update(
            {key: value for key, value in summary.items() if key not in ("version", "request")},
            state="complete",
            ended=now(),
            seconds=outcome.get("seconds"),
            attempts=outcome.get("attempts", []),
            notes=outcome.get("notes", []),
            output=str(output),
            rejected_rows=str(rejected) if rejected else None,
        )
        _io.write_json(directory / predictions.FILE, prediction)
        if options["format"] == "json":
            document.emit(prediction, options)
        else:
            display.display(text(prediction))
        if rejected and not prediction["predicted"]:
            with rejected.open(encoding="utf-8") as stream:
                first = json.loads(stream.readline())
            raise ValueError(
                f"no row could be predicted: line {first['line']} {first['reason']}. All lines are in {rejected}"
            )
        return {"changed": True, "path": str(directory / predictions.FILE), "output": str(output)}


def text(prediction: dict[str, Any]) -> str:
    """Return what came of a prediction, for a person."""
    lines = [f"{count(prediction['predicted'], 'row')} predicted by {count(prediction['instances'], 'instance')}"]
    if prediction["rows_per_second"]:
        lines[0] += f", {prediction['rows_per_second']:.1f} rows/s while they computed"
    restarts = len(prediction["attempts"]) - 1
    if prediction["seconds"]:
        included = f" with {count(restarts, 'restart')}" if restarts > 0 else ""
        lines[0] += f"; the last start took {duration(prediction['seconds'])}{included}"
    if restarts > 0:
        why = "; ".join(attempt["reason"] for attempt in prediction["attempts"] if attempt.get("reason"))
        lines.append(f"started again {count(restarts, 'time')}: {why}")
    if prediction.get("cut"):
        longer = count(prediction["cut"], "prompt")
        lines.append(f"{longer} had more tokens than sequence_length and went in without the beginning: set more")
    if prediction["rejected_rows"]:
        rejected = count(prediction["rejected"], "row")
        lines.append(
            f"{rejected} could not be predicted: line numbers and reasons are in {prediction['rejected_rows']}"
        )
    return "\n".join([*lines, f"The output is {prediction['output']}"])
