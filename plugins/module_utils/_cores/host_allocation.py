# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocate the cores of this host: for the plan of a job, and for the module core_allocation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Allocation, Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import SERVES, read


def allocate_host(
    request: Request,
    cores: int | None = None,
    in_use: Mapping[str, frozenset[int]] = MappingProxyType({}),
    root: str = "/",
    allowed_cpus: str | None = None,
) -> Allocation:
    """Return the allocation of this host's cores, without those that served models have.

    cores: how many are used, None for all. in_use: the CPUs of each served model, as held.cpus returns them. root,
    allowed_cpus: as topology.read takes them. Raises ValueError where the request does not fit.
    """
    topology = read(root, allowed_cpus)
    for server, cpus in in_use.items():
        reason = f"{SERVES}, {server} (playbooks/stop.yml -e job={server} frees them)"
        topology = topology.without(cpus, reason, f"are used by the served model {server}: the others are allocated")
    return allocate(topology if cores is None else topology.limited(cores), request)
