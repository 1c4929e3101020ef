# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: job
short_description: Read job files on the control node and check them completely
extends_documentation_fragment: amx.cluster.internal
options:
  _terms: {type: list, elements: path, required: true, description: Paths of job files}
  override: {type: raw, default: {}, description: "A mapping of fields that win over the files', merged with theirs"}
"""

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        # As plain data: what comes from a registered variable is of classes of Ansible's own.
        override = json.loads(json.dumps(self.get_option("override")))
        try:
            return [job_file.load(Path(term), override).to_json() for term in terms]
        except ValueError as error:
            raise AnsibleLookupError(str(error)) from error
