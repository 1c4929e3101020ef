# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: job
short_description: Read and check a job file
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads job files on the control node and checks them completely. Every error of a file is reported at once.
options:
  _terms:
    description: Paths of job files. A relative path is taken from where C(ansible-playbook) was started.
    type: list
    elements: path
    required: true
  override:
    description:
      - A mapping of fields that win over the files'. A mapping in it is merged with a file's.
    type: raw
    default: {}
seealso:
  - module: amx.cluster.job_read
"""

EXAMPLES = r"""
- name: Show the fields of a job
  ansible.builtin.debug:
    msg: "{{ lookup('amx.cluster.job', 'jobs/demo.yml', override={'hosts': 2}) }}"
"""

RETURN = r"""
_raw:
  description: The fields of each job, defaults filled in, paths absolute. Values of secrets are V(***).
  type: list
  elements: dict
"""

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        # As plain data: what comes from a registered variable is of classes of Ansible's own.
        override = json.loads(json.dumps(self.get_option("override")))
        try:
            return [job.load(Path(term), override).to_json() for term in terms]
        except ValueError as error:
            raise AnsibleLookupError(str(error)) from error
