# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import host_facts
from ansible_collections.amx.cluster.plugins.module_utils._jobs.commands import ANSWERS, HOST, JOB_HOST
from ansible_collections.amx.cluster.plugins.plugin_utils import runtime_command
from ansible_collections.amx.cluster.plugins.plugin_utils.module_action import ModuleAction


class ActionModule(ModuleAction):
    """Action of meta/runtime.yml for modules whose errors recommend a playbook, or which a runtime answers faster.

    A module is sent to the host and compiled there, which takes a second; the runtime is there already.
    """

    def run_module(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        module, variables = self._task.action.rpartition(".")[2], task_vars or {}
        if module == JOB_HOST:
            earlier = variables.get("preflight_host", {}).get(JOB_HOST, {})
            if earlier.get("options") == options:
                return {"changed": False, **earlier["answer"]}
        if module not in ANSWERS or self._asks_for_interpreters(module, options):
            return super().run_module(options, task_vars)
        further = start_request(variables, prefix(options)) if module == HOST else {}
        answers = runtime_command.ask(self, prefix(options), {module: options, **further})
        result = answers.get(module) or super().run_module(options, task_vars)
        of_job = {name: {"options": further[name], "answer": answers[name]} for name in further.keys() & answers.keys()}
        return {"changed": False, **result, **of_job}

    def _asks_for_interpreters(self, module: str, options: dict[str, Any]) -> bool:
        """Return whether the module reports the interpreters of Ansible, and so has to be run by them."""
        if module != HOST:
            return False
        _result, checked = self.validate_argument_spec(argument_spec=host_facts.ARGUMENTS)
        options.update((name, value) for name, value in checked.items() if value is not None)
        return bool(checked["interpreters"])


def start_request(variables: Mapping[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """Return what the start of the job that was checked will ask of this host, {module: options}: a call less then."""
    checked = variables.get("hostvars", {}).get("localhost", {}).get("job_checked", {})
    if not checked.get("question"):
        return {}
    return {JOB_HOST: {"prefix": prefix, "host": variables["inventory_hostname"], "question": checked["question"]}}


def prefix(options: dict[str, Any]) -> str:
    """Return the cluster_prefix of a module's options: as they have it, or that of their job directories."""
    if "prefix" in options:
        return str(options["prefix"])
    parts = PurePosixPath(options["path"]).parts
    return str(PurePosixPath(*parts[: len(parts) - parts[::-1].index("jobs") - 1]))
