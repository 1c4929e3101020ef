#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Gather facts about a host that matter for training
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Gathers facts about hardware, operating system, network, installed software and running jobs of a host. Changes
    nothing.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.info_module
options:
  prefix:
    description: The directory for virtual environments and jobs, which need not exist.
    type: path
    required: true
  python:
    description:
      - The command of the Python interpreter of the ranks, in which the kernel is asked for AMX. By default that of the
        virtual environment in O(prefix), or the one that runs the module if there is none.
    type: list
    elements: str
  amx_root:
    description: The directory of a captured machine, see O(amx.cluster.amx_info#module:root), whose NUMA nodes and
      kernel settings are read, too.
    type: path
    default: /
  system_root:
    description: The directory of a captured machine, whose C(etc/os-release) is read.
    type: path
    default: /
  stack_python:
    description: The path of the interpreter that virtual environments are to be made with, in place of all others.
    type: path
  fabric_root:
    description: The directory of a captured machine, with C(sys) and C(dev), whose RDMA devices and links are read.
    type: path
    default: /
  address:
    description: The address on the cluster network, where the host has several. It must be one of the host's.
    type: str
    default: ""
  reached:
    description: The address or the name by which Ansible reaches the host, which decides where O(address) is not set.
    type: str
    default: ""
  network:
    description: The network over which ranks communicate, as a CIDR. By default that of the default route.
    type: str
    default: ""
  interpreters:
    description: Whether to find RV(host.pythons), for which each of them is started.
    type: bool
    default: true
  software:
    description: Whether RV(host.stack) has the installed packages and the providers of libfabric, and
      RV(host.login_variables) is gathered.
    type: bool
    default: true
  slurm:
    description: Whether RV(host.slurm) is gathered, for which Slurm's controller is asked.
    type: bool
    default: false
seealso:
  - module: amx.cluster.amx_info
  - module: amx.cluster.core_allocation
"""

EXAMPLES = r"""
- name: Gather facts about the host
  amx.cluster.host_info:
    prefix: /opt/amx-cluster
  register: host
"""

RETURN = r"""
host:
  description: The facts.
  returned: success
  type: dict
  contains:
    machine:
      description: The architecture, as in C(uname -m).
      type: str
      returned: success
      sample: x86_64
    glibc:
      description: The version of the GNU C library, empty with another C library.
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
    cpus:
      description: How many CPUs the user's processes may run on.
      type: int
      returned: success
    cpu_quota:
      description: The number of CPUs whose time the cgroup of the user's processes may use. Null stands for no limit.
      type: float
      returned: success
    machine_settings:
      description:
        - C(nodes), the NUMA nodes, each with C(node), C(socket) (-1 where there are no CPUs), C(cpus), C(memory_bytes)
          and the bytes of its memory-side cache, C(cache_bytes); C(sockets), their number.
        - C(numa_balancing), C(zone_reclaim), C(huge_pages) and C(cpufreq_driver); C(governors) and C(preferences) (EPP)
          with the number of CPUs that have each.
        - C(idle_driver), and C(idle_state), the deepest idle state that is enabled, with the microseconds that waking
          up takes, C(idle_us).
        - What the kernel has no file of is empty.
      type: dict
      returned: success
    slurm:
      description:
        - Of Slurm, C(config) and C(partitions), by name the settings that C(scontrol) shows; C(error) where it shows
          none. Null without Slurm.
      type: dict
      returned: with O(slurm)
    prefix:
      description: The value of O(prefix).
      type: str
      returned: success
    prefix_ancestor:
      description: The prefix, or the nearest directory above it that exists.
      type: str
      returned: success
    prefix_unmarked:
      description: What is in a place in the prefix that the collection needs, and does not carry its mark.
      type: list
      elements: str
      returned: success
    prefix_free_bytes:
      description: Free bytes on the file system of the prefix.
      type: int
      returned: success
    prefix_writable:
      description: Whether the user may write to RV(host.prefix_ancestor).
      type: bool
      returned: success
    addresses:
      description:
        - The IPv4 addresses, each with its interface, its network, whether it has the default route, and the variable
          that it is C(named) by, C(cluster_address) (O(address)) or C(ansible_host) (O(reached)).
      type: list
      elements: dict
      returned: success
      sample:
        - {interface: eth0, address: 10.0.0.5, network: 10.0.0.0/24, default: true, named: ansible_host}
    network:
      description:
        - The C(interface), C(address) and C(network) of RV(host.addresses) that ranks use, see O(network).
        - Where there is none, C(refused) has the reason.
      type: dict
      returned: success
      sample: {interface: eth0, address: 10.0.0.5, network: 10.0.0.0/24}
    network_given:
      description: Whether O(network) was set. P(amx.cluster.cluster_networks#filter) chooses it otherwise.
      type: bool
      returned: success
    links:
      description:
        - The nominal speed of each interface of RV(host.addresses) in Mbit/s. That of a VLAN, bond or bridge is the
          speed of the slowest interface with hardware below it. Null where it is unknown, as for virtual interfaces.
      type: dict
      returned: success
      sample: {lo: null, eth0: 10000}
    os:
      description: The distribution and its version.
      type: str
      returned: success
      sample: debian 12
    system:
      description:
        - Whether the operating system is C(known) to this collection, and C(packages), the names that packages of the
          roles have on it.
      type: dict
      returned: success
      sample: {known: true, packages: {nftables: nftables, tcmalloc: libtcmalloc-minimal4}}
    pythons:
      description:
        - The interpreters that virtual environments can be made with. C(own) has the minor version and the path of the
          one that runs modules, C(others) the paths of those in C(/usr/bin) and C(/usr/local/bin) by minor version,
          C(fixed) the minor version and the path of O(stack_python), and C(error) why that one does not run.
      type: dict
      returned: with O(interpreters)
      sample: {own: ["3.9", /usr/bin/python3.9], others: {"3.12": /usr/bin/python3.12}, fixed: [], error: ""}
    python:
      description: The version of the Python that runs modules.
      type: str
      returned: success
      sample: "3.11.2"
    python_executable:
      description: The path of that Python.
      type: str
      returned: success
      sample: /usr/bin/python3.11
    amx:
      description: The facts about AMX, as M(amx.cluster.amx_info) returns them.
      type: dict
      returned: success
    memory_bytes:
      description: Memory in bytes.
      type: int
      returned: success
    memory_available_bytes:
      description: Memory in bytes that is available to new programs.
      type: int
      returned: success
    shm_bytes:
      description: Size of C(/dev/shm) in bytes, 0 if there is none.
      type: int
      returned: success
    home_writable:
      description: Whether the user may write to its home directory.
      type: bool
      returned: success
    jobs_free_bytes:
      description: Free bytes on the file system of the jobs, which may be another one than that of the prefix.
      type: int
      returned: success
    name:
      description: The host's own name.
      type: str
      returned: success
      sample: node0
    name_addresses:
      description: The IPv4 addresses of that name.
      type: list
      elements: str
      returned: success
    tcmalloc:
      description: The path of the allocator tcmalloc in the loader's cache, empty if it has none.
      type: str
      returned: success
    denied_calls:
      description: System calls of MPI and NUMA placement that are forbidden here.
      type: list
      elements: str
      returned: success
    stack:
      description:
        - The installed virtual environment, with C(env) (its directory), C(key), C(name), C(pinned) and, unless
          O(software=false), installed C(versions), C(providers) of libfabric and C(provider_error); empty if there is
          none.
      type: dict
      returned: success
    login_prints:
      description:
        - The C(text) that a command over SSH prints beside its own output, and the C(file) that prints it; empty where
          it is nothing.
      type: dict
      returned: success
    login_variables:
      description:
        - Environment variables that a login shell of the user sets and that jobs ignore, such as C(OMP_NUM_THREADS), by
          name; empty with O(software=false).
      type: dict
      returned: success
    fabric:
      description:
        - The RDMA devices of the host, with C(ports) (of each its C(device), C(number), C(vendor), C(link), C(state),
          C(physical) state, C(rate), C(interfaces), and the file in C(/dev) that is C(closed) to the user),
          C(memlock_bytes), the memory that a process of the user may lock, null for no limit, C(memory_bytes), and
          C(providers), which has for each fabric that the devices could be used by why libfabric of the virtual
          environment cannot use it, empty if it can.
      type: dict
      returned: success
    processes:
      description:
        - Processes of jobs, with C(pid), C(kind) (rank or launcher), C(job), the C(ports) on which they listen, and the
          resources that they use.
      type: list
      elements: dict
      returned: success
    running_jobs:
      description: Directories of running jobs that were started on this host.
      type: list
      elements: str
      returned: success
    services:
      description: Databases and hypervisors that run on the host, such as C(postgresql) and C(libvirt).
      type: list
      elements: str
      returned: with O(interpreters)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._hosts.facts import make_remote_tmp
from ansible_collections.amx.cluster.plugins.module_utils._jobs import host_facts


def main() -> None:
    module = AnsibleModule(argument_spec=host_facts.ARGUMENTS, supports_check_mode=True)
    make_remote_tmp(module._remote_tmp)
    try:
        module.exit_json(changed=False, **host_facts.answer(**module.params))
    except ValueError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
