# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.plugin_utils import document, measurements, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()


class ActionModule(ControlNodeAction):
    """Checks the request of a measurement on the control node, and says how far it has come."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {**measurements.ARGUMENTS, "format": document.ARGUMENTS["format"]}

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        template = self._templar.template if self._templar else requested.plain

        def given(name: str) -> Any:
            return requested.read(self._loader, name, task_vars, template, None)

        requested.refuse_slurm(options["hosts"], task_vars)
        shown = options.pop("format") == "text"
        options = requested.plain(measurements.requested(options, given, task_vars, template))
        measurement = measurements.read(options, task_vars.get("ansible_inventory_sources") or [])
        requested.refuse_misspelt(self._loader, (*document.ARGUMENTS, *measurements.names(options["kind"])))
        earlier = measurement.earlier()
        state = measurement.continued(earlier) if earlier else measurement.content
        ended = measurement.ended(state)
        if not ended and not self._task.check_mode:
            measurements.reserve(measurement, begins=False)
        if shown:
            display.display(measurement.status(state))
        return {
            "measurement": options,
            "job": measurement.job.name,
            "path": str(measurement.path),
            "hosts": measurement.hosts,
            "ended": ended,
            "interrupted": measurement.interrupted(),
            "questions": measurement.questions(),
        }
