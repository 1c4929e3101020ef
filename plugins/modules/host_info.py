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
  - Reads what hardware and system the host has, what is installed and which processes of jobs run there.
  - Changes nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The folder in which environments and jobs live, or will live.
    type: path
    required: true
  python:
    description:
      - The command of the interpreter that will train, in which the kernel is asked for AMX. By default the one of the
        environment in O(prefix), or the one that runs the module while nothing is installed there.
    type: list
    elements: str
  amx_root:
    description: As O(amx.cluster.amx_info#module:root), where flags and kernel of a captured machine are read.
    type: path
    default: /
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
      description: The best instruction set for training that can be used, see M(amx.cluster.amx_info).
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
    os:
      description: The distribution and its version.
      type: str
      returned: success
      sample: debian 12
    python:
      description: The version of the Python that runs modules.
      type: str
      returned: success
      sample: "3.11.2"
    amx:
      description: Whether AMX can be used, as M(amx.cluster.amx_info) returns it.
      type: dict
      returned: success
    memory_bytes:
      description: Memory of the host.
      type: int
      returned: success
    memory_available_bytes:
      description: Memory that new programs can have.
      type: int
      returned: success
    shm_bytes:
      description: Size of C(/dev/shm), 0 if there is none.
      type: int
      returned: success
    home_writable:
      description: Whether the user may write its home folder.
      type: bool
      returned: success
    jobs_free_bytes:
      description: Free bytes on the file system of the jobs, which may be another one.
      type: int
      returned: success
    name:
      description: What the host calls itself.
      type: str
      returned: success
      sample: node0
    name_addresses:
      description: The IPv4 addresses of that name.
      type: list
      elements: str
      returned: success
    tcmalloc:
      description: The file of the allocator tcmalloc in the loader's cache, or empty.
      type: str
      returned: success
    denied_calls:
      description: System calls that MPI and NUMA placement want and that are forbidden here.
      type: list
      elements: str
      returned: success
    stack:
      description:
        - The installed environment. C(env), C(key), C(name), C(pinned) and installed C(versions), libfabric's
          C(providers) and C(provider_error); empty if there is none.
      type: dict
      returned: success
    processes:
      description:
        - Processes of jobs. C(pid), C(kind) (C(rank), or C(starter) of ranks), C(job), the C(ports) on which they
          listen, and what they use.
      type: list
      elements: dict
      returned: success
    running_jobs:
      description: Directories of the jobs that run and were started here.
      type: list
      elements: str
      returned: success
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts import facts
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from ansible_collections.amx.cluster.plugins.module_utils._stacks import installed


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "path", "required": True},
            "python": {"type": "list", "elements": "str"},
            "amx_root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        prefix = Path(asked["prefix"])
        found = processes.find_in(prefix / "jobs")
        host = {
            **facts.read(prefix, asked["python"] or (), asked["amx_root"]),
            "stack": installed.describe(prefix / "env"),
            "processes": found,
            "running_jobs": processes.running_jobs(prefix / "jobs", found),
        }
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"cannot read what the host is: {error}")
    module.exit_json(changed=False, host=host)


if __name__ == "__main__":
    main()
