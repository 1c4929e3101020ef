# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: extra_var
short_description: Read a variable of the command line
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Returns the value of an extra variable (C(-e)) of C(ansible-playbook), and of no other variable.
  - Playbooks of this collection read options with everyday names by it, such as C(job), C(model) or C(output). A
    variable of that name in an inventory, or a fact, is something else.
options:
  _terms:
    description: Names of variables.
    type: list
    elements: str
    required: true
  default:
    description: The value of a variable that the command line does not set. Null by default.
    type: raw
seealso:
  - plugin: ansible.builtin.vars
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the job that the command line names with -e job=...
  ansible.builtin.debug:
    msg: "{{ lookup('amx.cluster.extra_var', 'job', default='jobs/demo.yml') }}"
"""

RETURN = r"""
_raw:
  description: The value of each variable.
  type: list
  elements: raw
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
