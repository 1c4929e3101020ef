# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action plugin that does its work on the control node, without contacting a host."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._io import disk_problem
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table


class ControlNodeAction(ActionBase):
    """Checks the task's options against ARGUMENTS, and returns what `act` does with them.

    What the task leaves open of document.ARGUMENTS comes from the command line. The options of commands that ROLE, or
    a playbook of this name, has variables for are read from these, else from the command line.

    An OSError or ValueError fails the task; a playbook that its message names becomes the command that runs it.
    """

    ARGUMENTS: ClassVar[dict[str, Any]]
    ROLE: ClassVar[str] = ""
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables, template = task_vars or {}, self._templar.template if self._templar else requested.plain
        arguments = dict(self.ARGUMENTS)
        try:
            for variable, option in table.of_role(self.ROLE) if self.ROLE else ():
                arguments[option.name] = {"type": option.type}
                if option.name not in self._task.args:
                    known = variable in variables
                    value = template(variables[variable]) if known else self.given(option.name, variables)
                    self._task.args = {**self._task.args, option.name: value}
            _result, options = self.validate_argument_spec(argument_spec=arguments)
            requested.check(self._loader)
            for name in document.ARGUMENTS:
                if name in self.ARGUMENTS and options[name] is None:
                    options[name] = self.given(name, variables)
            return {"changed": False, **self.act(options, variables)}
        except (OSError, ValueError) as error:
            full = disk_problem(str(error), socket.gethostname())
            return {"failed": True, "msg": full or inventory_in_use.commands(str(error))}

    def given(self, name: str, variables: Mapping[str, Any]) -> Any:
        """Return an option of the command line, else its default."""
        template = self._templar.template if self._templar else requested.plain
        return requested.read(self._loader, name, variables, template)

    def variable_of(self, task_vars: Mapping[str, Any]) -> Callable[[str, Any], Any]:
        """Return what reads a variable of the inventory by its name, with what it is where it is not set."""
        return lambda name, default: self._templar.template(task_vars[name]) if name in task_vars else default

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the task, without `changed` where nothing was. Raises OSError and ValueError."""
        raise NotImplementedError
