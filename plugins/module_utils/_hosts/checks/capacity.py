# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether memory, shared memory and disk are large enough."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    GIB,
    Cluster,
    Found,
    check,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import size


@check(
    FAILURE,
    cause="The kernel kills ranks that run out of memory (OOM: exit code 137, signal 9)",
    advice="End the processes that use the memory, or lower preflight_memory_gib if the model is small",
)
def memory(cluster: Cluster) -> Iterator[Found]:
    needed = cluster.wanted.memory_gib * GIB
    for host, info in cluster.infos.items():
        available, total = info["memory_available_bytes"], info["memory_bytes"]
        if available < needed:
            yield Found(host, f"{size(available)} of {size(total)} memory are free, {size(needed)} are required")


@check(
    FAILURE,
    cause="Installing software or writing a checkpoint stops half-way",
    advice="Free disk space there, or set cluster_prefix to a directory on a larger file system",
)
def disk(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        needed = (cluster.wanted.job_free_gib if info["stack"] else cluster.wanted.free_gib) * GIB
        free = {info["prefix"]: info["prefix_free_bytes"], f"{info['prefix']}/jobs": info["jobs_free_bytes"]}
        short = [path for path in free if free[path] < needed]
        if short:  # the second is nearly always on the same file system
            yield Found(host, f"{size(free[short[0]])} are free for {short[0]}, {size(needed)} are required")


@check(
    FAILURE,
    cause="Nothing can be installed",
    advice="Set cluster_prefix to a directory that the user can write to, or cluster_become to true",
)
def prefix(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if not info["prefix_writable"] and not cluster.wanted.become:
            where = info["prefix_ancestor"]
            yield Found(host, f"the user cannot write to {where}, where {info['prefix']} is to be created")


@check(
    FAILURE,
    cause="Bus error, or MPI and data loaders crash at random: the ranks of a host share memory there, and containers "
    "get 64 MiB by default",
    advice="Give /dev/shm half of the memory (mount -o remount,size=50% /dev/shm), or start the container with "
    "--shm-size",
)
def shm(cluster: Cluster) -> Iterator[Found]:
    needed = cluster.wanted.shm_gib * GIB
    for host, info in cluster.infos.items():
        if info["shm_bytes"] < needed:
            yield Found(host, f"/dev/shm has {size(info['shm_bytes'])}, {size(needed)} are required")
