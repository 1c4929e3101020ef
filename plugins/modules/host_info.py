#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Tell what a host is, as far as training on it needs to know
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Reads architecture, C library, instruction sets and the room under the cluster's prefix. Changes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The folder in which environments and jobs live, or will live.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read what the host is
  amx.cluster.host_info:
    prefix: /opt/amx-cluster
  register: host
"""

RETURN = r"""
host:
  description: What was read.
  returned: success
  type: dict
  contains:
    machine:
      description: The architecture, as C(uname -m) has it.
      type: str
      returned: success
      sample: x86_64
    glibc:
      description: The version of the GNU C library, empty with another one.
      type: str
      returned: success
      sample: "2.36"
    isa:
      description: The best instruction set for training that the CPU flags show.
      type: str
      returned: success
      sample: amx
    cpu_model:
      description: The model name of the first CPU.
      type: str
      returned: success
    prefix:
      description: As asked.
      type: str
      returned: success
    prefix_ancestor:
      description: The prefix, or the nearest folder above it that is there.
      type: str
      returned: success
    prefix_free_bytes:
      description: Free bytes on the file system of the prefix.
      type: int
      returned: success
    prefix_writable:
      description: Whether the user may write there.
      type: bool
      returned: success
    addresses:
      description: The IPv4 addresses, each with its interface, its network and whether the default route leaves by it.
      type: list
      elements: dict
      returned: success
      sample:
        - {interface: eth0, address: 10.0.0.5, network: 10.0.0.0/24, default: true}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _host


def main() -> None:
    module = AnsibleModule(argument_spec={"prefix": {"type": "path", "required": True}}, supports_check_mode=True)
    try:
        host = _host.read(Path(module.params["prefix"]))
    except OSError as error:
        module.fail_json(msg=f"cannot read what the host is: {error}")
    module.exit_json(changed=False, host=host)


if __name__ == "__main__":
    main()
