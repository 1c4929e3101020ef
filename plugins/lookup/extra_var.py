# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: extra_var
short_description: Read an option of the command line, and no other variable of its name
extends_documentation_fragment: amx.cluster.internal
options:
  _terms:
    {type: list, elements: str, required: true, description: "Names of options, such as job for the variable amx_job"}
  default: {type: raw, description: "The value where the command line does not set it, instead of the option's"}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.amx.cluster.plugins.plugin_utils import requested


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        given = [self.get_option("default")] if "default" in kwargs else []
        try:
            return [requested.read(self._loader, term, variables, self._templar.template, *given) for term in terms]
        except ValueError as error:
            raise AnsibleLookupError(str(error)) from error
