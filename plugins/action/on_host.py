# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import host_facts
from ansible_collections.amx.cluster.plugins.module_utils._jobs.commands import ANSWERS
from ansible_collections.amx.cluster.plugins.plugin_utils import runtime_command
from ansible_collections.amx.cluster.plugins.plugin_utils.module_action import ModuleAction


class ActionModule(ModuleAction):
    """Action of meta/runtime.yml for modules whose errors recommend a playbook, or which a runtime answers faster.

    A module is sent to the host and compiled there, which takes a second; the runtime is there already.
    """

    def run_module(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        module = self._task.action.rpartition(".")[2]
        if module in ANSWERS and not self._asks_for_interpreters(module, options):
            answer = runtime_command.ask(self, prefix(options), module, options)
            if answer is not None and not answer.get("failed"):
                return {"changed": False, **answer}
        return super().run_module(options, task_vars)

    def _asks_for_interpreters(self, module: str, options: dict[str, Any]) -> bool:
        """Return whether the module reports the interpreters of Ansible, and so has to be run by them."""
        if module != "host_info":
            return False
        _result, checked = self.validate_argument_spec(argument_spec=host_facts.ARGUMENTS)
        options.update((name, value) for name, value in checked.items() if value is not None)
        return bool(checked["interpreters"])


def prefix(options: dict[str, Any]) -> str:
    """Return the cluster_prefix of a module's options: as they have it, or that of their job directories."""
    if "prefix" in options:
        return str(options["prefix"])
    parts = PurePosixPath(options["path"]).parts
    return str(PurePosixPath(*parts[: len(parts) - parts[::-1].index("jobs") - 1]))
