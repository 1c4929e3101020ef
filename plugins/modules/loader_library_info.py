#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: loader_library_info
short_description: Find a shared library that can be preloaded
extends_documentation_fragment: amx.cluster.internal
options:
  names: {type: list, elements: str, default: [libtcmalloc_minimal.so.4, libtcmalloc.so.4],
    description: "Sonames, the preferred one first. The default is tcmalloc's"}
"""
EXAMPLES = "\n# Internal\n"

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
