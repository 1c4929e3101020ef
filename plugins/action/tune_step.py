# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._cores import candidates
from ansible_collections.amx.cluster.plugins.module_utils._measure import tuning, tuning_text
from ansible_collections.amx.cluster.plugins.plugin_utils import requested, tunes
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Records on the control node what came of a trial, and chooses the next one."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **tunes.ARGUMENTS,
        "tried": {"type": "dict", "default": {}},
        "candidates": {"type": "dict", "default": {}},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        wanted = tunes.read(options)
        tried = requested.plain(options["tried"])
        content = self.record(wanted, tried) if tried else self.begin(wanted, options)
        content, trial = tuning.advance(content, wanted.job, requested.now())
        if trial:
            content["running"] = {"job": trial["job"], "trial": trial, "began": time.time()}
        else:
            content["diff"] = tunes.diff(content, wanted.job)
        if self._task.check_mode:
            display.display(tuning_text.planned(content))
        else:
            _io.write_json(wanted.path, content)
        return {"run": trial or {}, "trial": tuning.derivation(content, wanted.job, trial) if trial else {}}

    def begin(self, wanted: tunes.Wanted, options: dict[str, Any]) -> dict[str, Any]:
        """Return the tuning as it goes on; another one in its place is moved aside."""
        valid = candidates.common(requested.plain(options["candidates"]))
        if not valid:
            raise ValueError(
                f"job {wanted.job.name} has no settings that are valid on every one of {', '.join(wanted.hosts)}: "
                f"playbooks/plan.yml -e job={wanted.job.file} says what does not fit"
            )
        return tuning.with_candidates(wanted.begin(options["again"], self._task.check_mode), valid)

    @staticmethod
    def record(wanted: tunes.Wanted, tried: dict[str, Any]) -> dict[str, Any]:
        """Return the tuning with the trial that has ended."""
        earlier = wanted.earlier()
        if earlier is None or not earlier.get("running"):
            raise ValueError(f"{wanted.path} is gone, or is not complete JSON")
        running = earlier["running"]
        content = tuning.recorded(earlier, running["trial"], tried, max(0.0, time.time() - running["began"]))
        display.display(tuning_text.line(content["trials"][-1]))
        return content
