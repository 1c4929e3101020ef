# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.amx.cluster.plugins.module_utils._jobs import adapters, serving
from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Checks on the control node what is to be served."""

    ROLE, ARGUMENTS = "serve", predictions.ARGUMENTS

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        requested.refuse_slurm(options["hosts"], task_vars)
        requested.refuse_misspelt(self._loader, table.BY_NAME["serve"].names)
        wanted = predictions.read_model(options, serving.SUFFIX, "server", default=1)
        replaces = boolean(options["serve_replace"] or False)
        override = requested.plain(options["override"]) or {}
        of_server = {"options": serving.read_options(options), "replaces": replaces, "override": override}
        given = requested.plain(options["serve_adapters"])
        of_server["adapters"] = adapters.read(given, of_server["options"]["engine"])
        return {"request": {**wanted.to_json(), **of_server}}
