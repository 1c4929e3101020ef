# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._cloud import inventory, request
from ansible_collections.amx.cluster.plugins.module_utils._cloud.prices import Price
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory as hosts_inventory
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction


class ActionModule(ControlNodeAction):
    """Writes the inventory directory of a rented cluster, or removes what it has written. EC2 is not asked."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "file": {"type": "path", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "network": {"type": "str", "default": ""},
        "price": {"type": "dict", "default": {"amount": None, "source": ""}},
        # Addresses of hosts that were made just now.
        "addresses": {"type": "list", "elements": "str", "default": []},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        options = requested.plain(options)
        wanted = request.load(Path(options["file"]))
        path = inventory.directory(wanted, Path.cwd()).absolute()
        texts = inventory.files(wanted, options["file"], options["network"], Price(**options["price"]), path)
        check = bool(self._task.check_mode)
        if options["state"] == "absent":
            return {"changed": inventory.remove(path, texts, check), "path": str(path)}
        changed = inventory.write(path, texts, check)
        if not check:
            inventory.forget(path, options["addresses"])
            in_use = hosts_inventory.option([str(path)], [], Path.cwd())
            command = inventory_in_use.commands("site.yml", in_use)
            screen.write(f"The inventory is {path}. To set its hosts up: {command}")
        return {"changed": changed, "path": str(path)}
