# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that the same software is installed on every host, and works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader, systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
    most_common,
)

OWN = "Install the same on every host, or run site.yml if it is: it reads the environment torch_stack_env again"


@check(
    FAILURE,
    cause="Ranks of one job run different software, or none",
    advice="Run site.yml, which installs the same on every host",
    full=True,
)
def stack(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if not info["stack"]:
            yield Found(host, f"no virtual environment is installed at {info['prefix']}/env")
    stacks = _stacks(cluster)
    same = _same(stacks)
    for host, installed in stacks.items():
        if host not in same:
            usual = next(iter(same.values()), {"env": ""})["env"]
            yield Found(host, f"it uses {installed['env']}, but {', '.join(same)} {usual}")


@check(
    FAILURE,
    cause="Another package replaced a pinned one: undefined symbol, Mismatch in kernel C++ signatures",
    advice="Remove the virtual environment's directory on this host and run site.yml, which installs it again",
    full=True,
)
def packages(cluster: Cluster) -> Iterator[Found]:
    same = _same(_stacks(cluster))
    names = {name for installed in same.values() for name in (*installed["versions"], *installed["pinned"])}
    for name in sorted(names):
        versions = {host: installed["versions"].get(name, "") for host, installed in same.items()}
        pinned = next((installed["pinned"][name] for installed in same.values() if name in installed["pinned"]), "")
        right = pinned or most_common(list(versions.values()))
        for host, version in versions.items():
            if version != right:
                is_now = f"{name} is {version}" if version else f"{name} is not installed"
                advice = OWN if same[host].get("path") else ""
                yield Found(host, f"{is_now}, but should be {right or 'absent, as on the other hosts'}", advice)


@check(
    FAILURE,
    cause="MPI_Init dies with OFI fi_getinfo() failed, find_provider: No data available",
    advice="Run site.yml, which installs Intel MPI with its providers; check that the interface is up",
    full=True,
)
def provider(cluster: Cluster) -> Iterator[Found]:
    for host, installed in _stacks(cluster).items():
        if installed["provider_error"]:
            yield Found(host, f"libfabric has no provider tcp: {installed['provider_error']}")
            continue
        if not installed["providers"]:
            continue  # this Intel MPI brings no program that lists them
        # Without one, the check network reports it.
        interface = cluster.networks[host].get("interface", "lo")
        if interface != "lo" and f"tcp of {interface}" not in installed["providers"]:
            listed = ", ".join(installed["providers"])
            yield Found(
                host, f"libfabric has no provider tcp of {interface}, which carries the cluster network, but {listed}"
            )


@check(
    WARNING,
    cause="Ranks use the slower allocator of the C library",
    advice="Install it and run ldconfig",
    full=True,
    gather=lambda _prefix: {"tcmalloc": loader.tcmalloc()},
)
def tcmalloc(cluster: Cluster) -> Iterator[Found]:
    for host, info in cluster.infos.items():
        if not info["tcmalloc"]:
            system = systems.find(info["os"])
            source = f" of {system.tcmalloc_from}" if system and system.tcmalloc_from else ""
            advice = f"Install the package {system.tcmalloc}{source} and run ldconfig" if system else ""
            yield Found(host, "the loader's cache has no libtcmalloc", advice)


def _stacks(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    return {host: info["stack"] for host, info in cluster.infos.items() if info["stack"]}


def _same(stacks: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the stacks of the hosts that have the virtual environment that most have."""
    usual = most_common([installed["env"] for installed in stacks.values()]) if stacks else ""
    return {host: installed for host, installed in stacks.items() if installed["env"] == usual}
