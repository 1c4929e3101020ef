#!/usr/bin/python
# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: core_allocation
short_description: Plan which core of a node does what in a training job
version_added: 1.0.0
description:
  - Divides the physical cores of the node into compute and communication cores of each rank and cores of the system,
    and derives the environment that makes it so.
  - The node's cores, sockets and NUMA nodes are read with C(lscpu), and only CPUs that are online and that the job
    may use are given out.
  - Every rank of a node has the same number of compute cores. No rank has more threads than its compute cores have
    CPUs for. A rank lies within one NUMA node if O(ranks_per_node) is at least the number of NUMA nodes with usable
    cores, and within one socket if it is at least the number of sockets.
  - A request that the node cannot satisfy fails with the request, what the node has and the nearest requests that
    fit; where served models leave no core, with their names.
requirements:
  - C(lscpu) of util-linux 2.32 or newer on the node
extends_documentation_fragment:
  - amx.cluster.attributes
attributes:
  check_mode:
    support: full
    details: The module only reads, so check mode is the same as a run.
  diff_mode:
    support: none
    details: Nothing is changed.
  idempotent:
    support: full
options:
  ranks_per_node:
    description:
      - How many ranks the node runs.
      - A whole number, or V(auto) for one rank per NUMA node with usable cores, V(socket) for one rank per socket
        with usable cores, or V(<=N) for V(N) ranks and fewer where the node has not got the cores for V(N). With
        V(auto) and V(socket) too the number is lowered, with a warning, until it fits.
    type: str
    default: auto
  backend:
    description:
      - The communication backend of the job.
      - With V(ccl), the worker threads of oneCCL are pinned to the communication cores and the rank's domain is its
        compute cores.
      - With V(gloo), the domain is the compute and communication cores, the OpenMP threads are bound to the compute
        cores, and gloo's own threads find room on the others.
      - With V(mpi), collectives run in the rank's own thread; on communication cores, if there are any, in a thread
        that is pinned to them, and the rank's domain is its compute cores.
    type: str
    choices: [ccl, gloo, mpi]
    default: gloo
  comm_cores:
    description:
      - Communication cores of each rank.
      - V(auto) is 1 for O(backend=ccl), 0 for O(backend=gloo), and for O(backend=mpi) 1 where a rank has at least 12
        cores.
      - With V(0) and O(backend=ccl), oneCCL has no worker thread, and ranks communicate on the cores that compute.
    type: str
    default: auto
  reserved_cores:
    description:
      - Cores of the node that are kept for the system.
      - V(auto) is one for each NUMA node with at least ten usable cores, and fewer where the ranks would otherwise
        not fit.
      - Cores that remain because all ranks must have equally many go to the system in any case.
    type: str
    default: auto
  threads_per_core:
    description:
      - OpenMP threads on each compute core.
      - A whole number, at most the hardware threads of a core, or V(all) for all of them.
      - Cores with fewer usable CPUs than this do not compute; they go to the system first, then to communication.
    type: str
    default: '1'
  allowed_cpus:
    description:
      - The CPUs that the job may use, as a list in the kernel's notation such as V(0-15,32-47).
      - By default what the module's own process may use (its affinity, which a cpuset or a batch system may have
        narrowed), without isolated CPUs.
      - With a captured tree in O(root) the default is what its C(proc/self/status) says, else every online CPU.
    type: str
  cores:
    description:
      - How many cores are used, the last ones, of as few NUMA nodes as have them; those of other kinds than the small
        cores of a hybrid processor before these.
      - More than the node has usable is an error. By default all are used.
    type: int
  prefix:
    description:
      - The directory for virtual environments and jobs, C(cluster_prefix) of the inventory.
      - Cores of which a model served from it uses a CPU on O(host) are left out, as a job's plan leaves them out.
      - Requires O(host), and is of this machine, so that O(root) is not possible with it.
    type: path
  host:
    description:
      - The node's name in the inventory, by which plans of served models know it. Requires O(prefix).
    type: str
  root:
    description:
      - Where C(/sys) and C(/proc) of the machine are found; a captured tree plans for another machine.
    type: path
    default: /
notes:
  - C(docs/core_allocation.md) in the collection explains the rules, with worked examples.
author:
  - The amx.cluster maintainers (@amx-cluster)
seealso:
  - module: amx.cluster.host_info
"""

EXAMPLES = r"""
- name: Allocate cores for one rank per NUMA node
  amx.cluster.core_allocation:
  register: plan

- name: Allocate cores for two ranks with a oneCCL worker each and six cores for the system
  amx.cluster.core_allocation:
    ranks_per_node: 2
    backend: ccl
    comm_cores: 1
    reserved_cores: 6
  register: plan

- name: Allocate cores for two ranks, or one on a node with a single core
  amx.cluster.core_allocation:
    ranks_per_node: '<=2'
    reserved_cores: 0
  register: plan

- name: Allocate what served models leave, as the plan of a job does
  amx.cluster.core_allocation:
    prefix: "{{ cluster_prefix }}"
    host: "{{ inventory_hostname }}"
  register: plan

- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ plan.map }}"
"""

RETURN = r"""
ranks_per_node:
  description: How many ranks the node runs.
  type: int
  returned: success
  sample: 2
threads_per_rank:
  description: OpenMP threads of each rank.
  type: int
  returned: success
  sample: 12
backend:
  description: The backend for which the plan was made.
  type: str
  returned: success
  sample: ccl
comm_cores:
  description: Communication cores of each rank.
  type: int
  returned: success
  sample: 1
reserved_cores:
  description: Cores kept for the system, not counting those that remained.
  type: int
  returned: success
  sample: 6
threads_per_core:
  description: OpenMP threads on each compute core.
  type: int
  returned: success
  sample: 1
ranks:
  description: The share of each rank of the node, in the order of their local numbers.
  type: list
  elements: dict
  returned: success
  contains:
    rank:
      description: Number of the rank on this node, from 0.
      type: int
    numa_nodes:
      description: NUMA nodes that its cores are in.
      type: list
      elements: int
    sockets:
      description: Sockets that its cores are in.
      type: list
      elements: int
    compute_cpus:
      description: CPUs to which its OpenMP threads are bound, RV(threads_per_core) of each compute core.
      type: list
      elements: int
    comm_cpus:
      description:
        - CPUs for communication. With ccl one of each communication core, with gloo RV(threads_per_core) of each.
      type: list
      elements: int
    domain_cpus:
      description:
        - CPUs on which the process may run; RV(ranks[].compute_cpus), and with gloo also RV(ranks[].comm_cpus).
      type: list
      elements: int
    domain_mask:
      description: The domain as a hexadecimal mask, bit n for CPU n.
      type: str
    env:
      description:
        - Environment variables that differ between the ranks of the node, to be set for this rank alone.
        - With gloo and communication cores this is C(KMP_AFFINITY), which then lists the compute CPUs; otherwise it
          is empty.
      type: dict
  sample:
    - rank: 0
      numa_nodes: [0]
      sockets: [0]
      compute_cpus: [4, 5, 6, 7]
      comm_cpus: [3]
      domain_cpus: [4, 5, 6, 7]
      domain_mask: '0xf0'
      env: {}
system_cpus:
  description: CPUs of the cores that are left to the system, including those that remained.
  type: list
  elements: int
  returned: success
  sample: [0, 1, 2]
remainder_cpus:
  description: Those of RV(system_cpus) whose cores remained because all ranks have equally many compute cores.
  type: list
  elements: int
  returned: success
  sample: []
unused_cpus:
  description: CPUs on which neither a rank nor the system is meant to run, by reason.
  type: list
  elements: dict
  returned: success
  contains:
    reason:
      description: Why they are not used.
      type: str
    cpus:
      description: The CPUs.
      type: list
      elements: int
  sample:
    - reason: offline
      cpus: [62, 63]
env:
  description:
    - Environment variables that are the same for every rank of the node, values as text.
    - C(OMP_NUM_THREADS), C(KMP_HW_SUBSET), C(KMP_BLOCKTIME), C(I_MPI_PIN_DOMAIN); C(KMP_AFFINITY) unless it is in
      RV(ranks[].env); and with ccl C(CCL_WORKER_COUNT), and C(CCL_WORKER_AFFINITY) or, without
      communication cores, C(CCL_WORKER_OFFLOAD).
    - The C(KMP_) variables only have an effect if Intel's OpenMP run time, libiomp5, is loaded.
  type: dict
  returned: success
  sample:
    OMP_NUM_THREADS: '4'
    KMP_HW_SUBSET: 1T
    KMP_AFFINITY: granularity=fine,compact,1,0
    KMP_BLOCKTIME: '1'
    I_MPI_PIN_DOMAIN: '[0xf0]'
    CCL_WORKER_COUNT: '1'
    CCL_WORKER_AFFINITY: '3'
topology:
  description:
    - What the node has. Counts of CPUs (hardware threads), cores, sockets; NUMA nodes that have CPUs; which CPUs are
      offline, not allowed, isolated, over the CPU quota of the cgroup, or belong to the small cores of a hybrid
      processor, as CPU lists.
  type: dict
  returned: success
  sample:
    cpus: 16
    online_cpus: 16
    usable_cpus: 16
    cores: 8
    usable_cores: 8
    threads_per_core: 2
    sockets: 1
    numa_nodes:
      - node: 0
        sockets: [0]
        cores: 8
        usable_cores: 8
        cpus: 0-15
    offline: ''
    not_allowed: ''
    isolated: ''
    over_quota: ''
    hybrid: false
    efficient_cpus: ''
warnings:
  description: What a person should know about the plan, such as cores that remained or a rank that spans NUMA nodes.
  type: list
  elements: str
  returned: when there are any
  sample: []
map:
  description: A picture of the plan, one character for each core, by socket and NUMA node.
  type: str
  returned: success
  sample: |-
    socket 0  node 0  sssc0000
    one character is one core: 0 computes for rank 0, c communication, s system
core_map:
  description:
    - The same as data. C(rows), each a C(socket), a NUMA C(node) and its C(cells); a cell has the number of a
      C(core), its C(cpus), its C(letter) in the picture and its C(purpose). C(ranks) is how many the node has,
      C(offline) its CPUs that are offline.
  type: dict
  returned: success
map_svg:
  description: The same picture as an SVG document.
  type: str
  returned: success
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import BACKENDS, Request
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap, described
from ansible_collections.amx.cluster.plugins.module_utils._cores.host_allocation import allocate_host
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import held


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ranks_per_node": {"type": "str", "default": "auto"},
            "backend": {"type": "str", "choices": list(BACKENDS), "default": "gloo"},
            "comm_cores": {"type": "str", "default": "auto"},
            "reserved_cores": {"type": "str", "default": "auto"},
            "threads_per_core": {"type": "str", "default": "1"},
            "allowed_cpus": {"type": "str"},
            "cores": {"type": "int"},
            "prefix": {"type": "path"},
            "host": {"type": "str"},
            "root": {"type": "path", "default": "/"},
        },
        required_together=[["prefix", "host"]],
        supports_check_mode=True,
    )
    settings = dict(module.params)
    prefix, host = settings.pop("prefix"), settings.pop("host")
    places = {name: settings.pop(name) for name in ("cores", "root", "allowed_cpus")}
    if prefix is not None:
        if not host or not Path(prefix).is_dir():
            module.fail_json(msg=f"prefix: {prefix} is no directory on this node" if host else "host: it is empty")
        if module.params["root"] != "/":
            module.fail_json(msg="prefix is of this node, and root of another machine: leave one of them out")
    try:
        in_use = held.cpus(Path(prefix) / "jobs", host) if prefix else {}
        plan = allocate_host(Request(**settings), in_use=in_use, **places)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    result = described(plan)
    for warning in result.pop("warnings"):
        module.warn(warning)  # and so it stands in the result's `warnings`
    drawn = CoreMap.of(plan)
    module.exit_json(changed=False, **result, map=drawn.text(), map_svg=drawn.svg())


if __name__ == "__main__":
    main()
