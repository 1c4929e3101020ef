# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._measure import network_result, network_text
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()
REQUESTED = ("largest", "minutes", "model", "parameters", "step_compute_seconds")


class ActionModule(ControlNodeAction):
    """Judges a measured network on the control node, shows it and writes network.json."""

    ROLE = "network"
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **{name: {"type": "str", "default": ""} for name in ("imb_log", "name", "started", "ended")},
        "measured": {"type": "dict", "default": {}},
        "hosts": {"type": "list", "elements": "dict", "default": []},
        "models": {"type": "dict", "default": {}},
        "gradient_compression": {"type": "str", "default": "none"},
        "to": {"type": "path"},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        request = network_result.request(**{name: options[name] for name in REQUESTED}, models=dict(options["models"]))
        answer: dict[str, Any] = {"largest": request.largest, "seconds": request.seconds}
        if not options["measured"]:
            return answer
        measured, log = options["measured"], options["imb_log"]
        network = network_result.result(
            request,
            measured,
            [network_result.link(**host) for host in options["hosts"]],
            log,
            options["name"],
            (options["started"], options["ended"]),
            options["gradient_compression"],
        )
        for finding in network["findings"]:
            finding["text"] = inventory_in_use.commands(finding["text"])
        if options["to"]:
            path = Path(options["to"]).expanduser().absolute()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _io.write_json(path, network)
        if options["format"] == "json":
            document.emit(network, options)
        else:
            screen.show(network_text.render(network, network_result.left_out(measured, log, request)))
            if options["to"]:
                display.display(f"\nWrote {path}")
        return {**answer, "network": network}
