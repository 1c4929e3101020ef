#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: loader_library_info
short_description: Find a shared library that can be preloaded
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Looks up a library in the cache of the dynamic loader, since its path depends on the distribution, and tests whether
    it can be preloaded.
  - Root is not needed.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  names:
    description: Sonames, the preferred one first. The default is tcmalloc's.
    type: list
    elements: str
    default: [libtcmalloc_minimal.so.4, libtcmalloc.so.4]
seealso:
  - module: amx.cluster.venv_check_info
"""

EXAMPLES = r"""
- name: Find tcmalloc
  amx.cluster.loader_library_info:
  register: tcmalloc
"""

RETURN = r"""
path:
  description: The path of the first of O(names) that is installed and can be preloaded, empty if there is none.
  returned: success
  type: str
  sample: /lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader


def main() -> None:
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "default": list(loader.TCMALLOC)}},
        supports_check_mode=True,
    )
    try:
        path = loader.find(module.params["names"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, path=path)


if __name__ == "__main__":
    main()
