#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: hub_snapshot
short_description: Fetch a repository of the Hugging Face hub
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Has all files of a repository at one revision in a folder, each verified by the sum that the hub tells.
  - Each commit has a folder of its own, so that a branch that moves leaves the folder of its earlier commit as it is.
  - An interrupted fetch goes on. What is there whole is not fetched again, and a commit that is there whole is not
    asked for. When the hub cannot be reached, a branch is what it was when the hub was last asked, with a warning.
requirements:
  - huggingface_hub >= 0.12 in the Python that runs the module
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
    details:
      - The hub is asked what there is.
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
    description: What it is a repository of.
    type: str
    choices: [model, dataset, space]
    default: model
  revision:
    description: A branch, a tag or a commit.
    type: str
    default: main
  files:
    description: Patterns of the files that are fetched, such as V(*.safetensors). All by default.
    type: list
    elements: str
    default: []
  path:
    description: The folder below which repositories are kept, as huggingface_hub keeps its cache.
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
  description: The folder that has the files of this commit.
  returned: success
  type: str
commit:
  description: The commit that the revision is.
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
            "kind": {"type": "str", "choices": ["model", "dataset", "space"], "default": "model"},
            "revision": {"type": "str", "default": "main"},
            "files": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "default": ""},
            "token": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    wish = hub.Wish(asked["kind"], asked["repository"], asked["revision"], asked["token"], tuple(asked["files"]))
    try:
        snapshot = hub.fetch(wish, Path(asked["path"]), asked["address"], only_look=module.check_mode)
    except hub.HubError as error:
        module.fail_json(msg=str(error))
    if snapshot.warning:
        module.warn(snapshot.warning)
    module.exit_json(changed=snapshot.changed, path=str(snapshot.path), commit=snapshot.commit)


if __name__ == "__main__":
    main()
