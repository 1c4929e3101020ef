# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of kernel settings that slow ranks down. `machine` reads them."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._hosts import machine
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import WARNING, Cluster, Found, check

# Those that raise the frequency only after a core has been busy. One by which an administrator sets it is not judged.
SLOW_GOVERNORS = ("conservative", "ondemand", "powersave", "schedutil")


@check(
    WARNING,
    cause="The kernel keeps moving pages of ranks",
    advice='host_tuning_numa_balancing: "0" in the inventory has site.yml turn it off for the whole host; for '
    "a container, run sysctl -w kernel.numa_balancing=0 on its machine",
)
def numa_balancing(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        seen = info["machine_settings"]
        nodes = len(seen["nodes"])
        if nodes > 1 and seen["numa_balancing"] not in ("", "0"):
            yield Found(host, f"kernel.numa_balancing is {seen['numa_balancing']}, with {nodes} NUMA nodes")


@check(
    WARNING,
    cause="Where cached files fill a rank's NUMA node, it gets slower memory",
    advice='host_tuning_zone_reclaim: "1" in the inventory has site.yml set it for the whole host; for a '
    "container, run sysctl -w vm.zone_reclaim_mode=1 on its machine. On a host that is also a file server, leave it",
)
def zone_reclaim(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        seen = info["machine_settings"]
        nodes = sum(node["cpus"] > 0 for node in seen["nodes"])
        if nodes > 1 and seen["zone_reclaim"] == "0":
            yield Found(host, f"vm.zone_reclaim_mode is 0, with {nodes} NUMA nodes that have CPUs")


@check(
    WARNING,
    cause="After each wait, a core first has to raise its frequency",
    advice="host_tuning_cpu_governor: performance in the inventory has site.yml set it for the whole host; "
    "for a container, run cpupower frequency-set -g performance on its machine",
)
def cpu_governor(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        seen = info["machine_settings"]
        if any(governor in SLOW_GOVERNORS for governor in seen["governors"]):
            yield Found(host, f"the CPU governor is {machine.governor(seen)}")
