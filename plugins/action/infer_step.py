# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
import time
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._cores import instances
from ansible_collections.amx.cluster.plugins.module_utils._measure import (
    inference,
    inference_choice,
    inference_matrix,
    inference_text,
)
from ansible_collections.amx.cluster.plugins.plugin_utils import infers, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Records on the control node what came of a trial of an inference benchmark, and chooses the next one."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **infers.ARGUMENTS,
        "instances": {"type": "dict", "default": {}},
        "provided": {"type": "dict", "default": {}},
        "cpu": {"type": "str", "default": ""},
        "stack": {"type": "str", "default": ""},
        "tried": {"type": "dict", "default": {}},
        "found": {"type": "dict", "default": {}},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = infers.read(options)
        tried = requested.plain(options["tried"])
        content = self.record(wanted, tried, options) if tried else self.begin(wanted, options)
        content, trial = inference.advance(content, wanted.request, wanted.job, requested.now())
        now = time.time()
        if trial:
            content["running"] = {"job": trial["job"], "trial": trial, "began": now}
        content = inference_choice.concluded(content)
        if self._task.check_mode:
            display.display(inference_text.planned(content))
        else:
            self.write(wanted, content)
        derivation = inference.derivation(content, wanted.request, wanted.job, trial, now) if trial else {}
        return {"run": trial or {}, "trial": derivation}

    def begin(self, wanted: infers.Wanted, options: dict[str, Any]) -> dict[str, Any]:
        """Return the benchmark as it goes on; another one in its place is moved aside."""
        about = {name: _provided(name, model, options["provided"]) for name, model in wanted.models.items()}
        settings = instances.common(requested.plain(options["instances"]))
        content = wanted.begin(options["again"], self._task.check_mode)
        return inference.with_cells(content, wanted.request, about, settings, options)

    @staticmethod
    def record(wanted: infers.Wanted, tried: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Return the benchmark with the trial that has ended."""
        earlier = wanted.earlier()
        if earlier is None or not earlier.get("running"):
            raise ValueError(f"{wanted.path} is gone, or is not complete JSON")
        running = earlier["running"]
        duration = max(0.0, time.time() - running["began"])
        content = inference.recorded(earlier, running["trial"], tried, requested.plain(options["found"]), duration)
        display.display(inference_text.line(content, content["trials"][-1]))
        return content

    @staticmethod
    def write(wanted: infers.Wanted, content: dict[str, Any]) -> None:
        """Write inference.json, and each recommended setting beside it when there is nothing left to measure."""
        _io.write_json(wanted.path, content)
        if content["ended"]:
            for old in wanted.path.parent.glob(inference_choice.file_name("*")):
                _ownership.remove(old)
            for name in content["recommended"]:
                path = wanted.path.with_name(inference_choice.file_name(name))
                _io.write_text(path, inference_choice.setting_file(content, name))


def _provided(name: str, model: dict[str, Any], provided: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a model, with what the hosts said when it was provided."""
    if not model["entry"]:
        return {**model, "error": ""}
    told = provided.get(name) or {}
    return inference_matrix.provided(
        model, name, told.get("error", ""), *map(_decoded, (told.get("config"), told.get("job")))
    )


def _decoded(text: str | None) -> dict[str, Any]:
    """Return the mapping in a JSON file that the module slurp read; empty for none."""
    try:
        content = json.loads(base64.b64decode(text or ""))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
