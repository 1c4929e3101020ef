# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the sizes of memory, shared memory and disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    GIB,
    Cluster,
    Found,
    check,
)
from ansible_collections.amx.cluster.plugins.module_utils._text import size


def memory_of_host(_prefix: Path) -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    fields = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}
    return {"memory_bytes": fields.get("MemTotal", 0), "memory_available_bytes": fields.get("MemAvailable", 0)}


@check(
    FAILURE,
    cause="The kernel kills ranks (OOM: exit code 137, signal 9)",
    advice="End the processes that use the memory, or lower preflight_memory_gib if the model is small",
    limits=("memory_gib",),
    gather=memory_of_host,
)
def memory(cluster: Cluster) -> Iterator[Found]:
    needed = cluster.wanted.limits["memory_gib"] * GIB
    for host, info in cluster.infos.items():
        # A job does not begin beside those that run.
        running = cluster.infos[cluster.head]["running_jobs"] if cluster.head in cluster.infos else []
        theirs = sum(process["rss_bytes"] for process in info["processes"] if process["job"] in running)
        available, total = info["memory_available_bytes"], info["memory_bytes"]
        if available + theirs < needed:
            yield Found(host, f"{size(available)} of {size(total)} memory are free, {size(needed)} are required")


def existing_ancestor(path: Path) -> Path:
    """Return `path`, or the nearest directory above it that exists."""
    while True:
        try:
            if path.exists():
                return path
        except PermissionError:
            pass  # it is below a directory that this user may not enter
        path = path.parent


def free_bytes(prefix: Path) -> dict[str, int]:
    directories = {"prefix_free_bytes": prefix, "jobs_free_bytes": prefix / "jobs"}
    return {name: shutil.disk_usage(existing_ancestor(path)).free for name, path in directories.items()}


@check(
    FAILURE,
    cause="An installation or checkpoint stops half-way",
    advice="Free disk space there, or set cluster_prefix to a directory on a larger file system",
    limits=("free_gib", "job_free_gib"),  # before and after the stack is installed
    gather=free_bytes,
)
def disk(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        needed = cluster.wanted.limits["job_free_gib" if info["stack"] else "free_gib"] * GIB
        free = {info["prefix"]: info["prefix_free_bytes"], f"{info['prefix']}/jobs": info["jobs_free_bytes"]}
        short = [path for path in free if free[path] < needed]
        if short:  # the second is nearly always on the same file system
            yield Found(host, f"{size(free[short[0]])} are free for {short[0]}, {size(needed)} are required")


def place_of_prefix(prefix: Path) -> dict[str, Any]:
    ancestor = existing_ancestor(prefix)
    writable = ancestor.is_dir() and os.access(ancestor, os.W_OK | os.X_OK)
    return {"prefix_ancestor": str(ancestor), "prefix_writable": writable}


@check(
    FAILURE,
    cause="Nothing can be installed",
    advice="Set cluster_prefix to a directory that the user can write to, or cluster_become to true",
    gather=place_of_prefix,
)
def prefix(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if not info["prefix_writable"] and not cluster.wanted.become:
            where = info["prefix_ancestor"]
            yield Found(host, f"the user cannot write to {where}, where {info['prefix']} is to be created")


def unmarked_places(prefix: Path) -> dict[str, Any]:
    """Return what is in a place that the collection needs, and is not its own: it would be refused half-way."""
    places = []
    with suppress(PermissionError):
        links = [prefix / name for name in ("env", "examples")]
        places += [path for path in links if path.exists() and not path.is_symlink() and not _ownership.is_own(path)]
        directories = [prefix, *(prefix / name for name in ("cache", "envs", "jobs", "wheels"))]
        places += [path for path in directories if path.exists() and not path.is_dir()]
        places += [
            path.parent
            for path in sorted(prefix.glob("envs/*/amx-cluster.json"))
            if not path.parent.is_symlink() and not _ownership.is_own(path.parent)
        ]
    return {"prefix_unmarked": [str(path) for path in places]}


@check(
    FAILURE,
    cause="Nothing can be installed, as the collection replaces only what carries its mark",
    advice="Rename it or move it away, or set cluster_prefix to another directory",
    gather=unmarked_places,
)
def unmarked(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        for path in info["prefix_unmarked"]:
            yield Found(host, f"{path} was not made by this collection, which needs that place")


def shm_of_host(_prefix: Path) -> dict[str, int]:
    return {"shm_bytes": shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0}


@check(
    FAILURE,
    cause="Bus error, or random crashes of MPI and data loaders: containers get 64 MiB by default",
    advice="Give /dev/shm half of the memory (mount -o remount,size=50% /dev/shm), or start the container with "
    "--shm-size",
    limits=("shm_gib",),
    gather=shm_of_host,
)
def shm(cluster: Cluster) -> Iterator[Found]:
    needed = cluster.wanted.limits["shm_gib"] * GIB
    for host, info in cluster.infos.items():
        if info["shm_bytes"] < needed:
            yield Found(host, f"/dev/shm has {size(info['shm_bytes'])}, {size(needed)} are required")
