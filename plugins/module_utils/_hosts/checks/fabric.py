# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks for the fabric that the inventory names, and for one that hosts have and do not share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import (
    FAILURE,
    WARNING,
    Cluster,
    Found,
    check,
)


@check(
    FAILURE,
    cause="Ranks cannot use the fabric of cluster_fabric: MPI_Init dies with OFI fi_getinfo() failed",
    advice="Set cluster_fabric to auto, which uses TCP where a host does not have a fabric",
)
def fabric(cluster: Cluster) -> Iterator[Found]:
    wanted = cluster.wanted.fabric
    if wanted in fabrics.FABRICS:
        for host, facts in of_hosts(cluster).items():
            lack = fabrics.find_lack_everywhere(wanted, facts)
            if lack:
                yield Found(
                    host,
                    f"cluster_fabric is {wanted}, and it has {lack.text}",
                    f"{lack.advice[0].upper()}{lack.advice[1:]}, or set cluster_fabric to auto",
                )


@check(
    WARNING,
    cause="Jobs use TCP, although some or all hosts have a faster fabric",
    advice="Set cluster_fabric to tcp if that is as it should be",
    full=True,
)
def fabric_unused(cluster: Cluster) -> Iterator[Found]:
    if cluster.wanted.fabric == fabrics.AUTO:
        name, link, lacks = fabrics.kept_back(of_hosts(cluster))
        for host, lack in lacks.items():
            yield Found(
                host,
                f"jobs use TCP instead of {link} ({name}), because it has {lack.text}",
                f"{lack.advice[0].upper()}{lack.advice[1:]}, or set cluster_fabric to tcp",
            )


def of_hosts(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    """Return what is known of the fabrics of each host that could be asked."""
    return {host: info.get("fabric", {}) for host, info in cluster.infos.items()}
