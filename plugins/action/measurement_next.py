# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._measure.measurement import Found, Stopped
from ansible_collections.amx.cluster.plugins.plugin_utils import measurements, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Records on the control node what came of a run of a measurement, and chooses the next one."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "measurement": {"type": "dict", "required": True, "options": measurements.ARGUMENTS},
        "tried": {"type": "dict", "default": {}},
        "found": {"type": "dict", "default": {}},
        "head": {"type": "dict", "default": {}},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        options, dry, now = requested.plain(options), self._task.check_mode, time.time()
        measurement = measurements.read(options["measurement"], task_vars.get("ansible_inventory_sources") or [])
        facts = Found(options["found"], options["head"])
        if options["tried"]:
            try:
                state, line = measurement.recorded(measurement.current(), options["tried"], facts, now)
            except Stopped as stopped:
                measurement.write(stopped.content)
                raise
            display.display(line)
        else:
            if not dry:
                measurements.reserve(measurement, begins=True)
            state = measurement.begin(facts, dry)
        state, run = measurement.next(state, now)
        if dry:
            display.display(measurement.planned(state))
        else:
            measurement.write(state)
        if run is None:
            return {"run": {}, "trial": {}}
        return {"run": run.to_json(), "trial": measurement.trial(state, run, now)}
