#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: hub_snapshot
short_description: Fetch a repository of the Hugging Face hub
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Fetches all files of a repository at one revision into a directory, each verified by the checksum of the hub.
  - Each commit has a directory of its own, so that a branch that moves leaves the directory of its previous commit as
    it is.
  - An interrupted download is resumed by the next run. Complete files are not fetched again, and for a commit that is
    complete the hub is not asked. When the hub is unavailable, a branch is at the commit of the previous run, with a
    warning.
requirements:
  - huggingface_hub >= 0.12 in the Python that runs the module
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
    details:
      - The hub is asked for the commit of the revision.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  repository:
    description: The name of the repository.
    type: str
    required: true
  kind:
    description: The kind of repository.
    type: str
    choices: [model, dataset, space]
    default: model
  revision:
    description: A branch, a tag or a commit.
    type: str
    default: main
  files:
    description: Patterns of the files to fetch, such as V(*.safetensors). All by default.
    type: list
    elements: str
    default: []
  path:
    description: The directory below which repositories are kept, as huggingface_hub keeps its cache.
    type: path
    required: true
  address:
    description: The address of the hub. Empty for huggingface_hub's own default.
    type: str
    default: ""
  token:
    description: A token for the hub. Empty for the one that huggingface_hub finds by itself, if there is one.
    type: str
    default: ""
seealso:
  - module: amx.cluster.venv
"""

EXAMPLES = r"""
- name: Fetch a model
  amx.cluster.hub_snapshot:
    repository: google-bert/bert-base-uncased
    revision: main
    path: /opt/amx-cluster/cache/fetched/hub
  vars:
    ansible_python_interpreter: /opt/amx-cluster/env/bin/python
  register: bert
"""

RETURN = r"""
path:
  description: The directory with the files of the commit.
  returned: success
  type: str
commit:
  description: The commit of the revision.
  returned: success
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._data import hub


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repository": {"type": "str", "required": True},
            "kind": {"type": "str", "choices": list(hub.KINDS), "default": "model"},
            "revision": {"type": "str", "default": "main"},
            "files": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "default": ""},
            "token": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    request = hub.Request(
        options["kind"], options["repository"], options["revision"], options["token"], tuple(options["files"])
    )
    try:
        snapshot = hub.fetch(request, Path(options["path"]), options["address"], check_only=module.check_mode)
    except hub.HubError as error:
        module.fail_json(msg=str(error))
    if snapshot.warning:
        module.warn(snapshot.warning)
    module.exit_json(changed=snapshot.changed, path=str(snapshot.path), commit=snapshot.commit)


if __name__ == "__main__":
    main()
