# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: extra_var
short_description: Read a variable of the command line, and no other of its name
extends_documentation_fragment: amx.cluster.internal
options:
  _terms: {type: list, elements: str, required: true, description: Names of variables}
  default: {type: raw, description: The value of a variable that the command line does not set}
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        default = self.get_option("default")
        given = load_extra_vars(self._loader)
        # An extra variable wins over every other one of its name.
        return [self._templar.template(variables[name]) if name in given else default for name in terms]
