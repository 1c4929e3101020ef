# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs that the servers of models on a host have: plans of other jobs leave them out."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory


def cpus(jobs: Path, host: str, starting: str = "") -> dict[str, frozenset[int]]:
    """Return {name of a server: CPUs of its instances on this host} of the servers that run here.

    jobs: the directory of the job directories. host: this host's name in the inventory. starting: a server that is left
    out, as it is to be replaced.
    """
    used = {}
    for path in jobs.glob("*/status.json"):
        server = path.parent
        try:
            if server.name != starting and directory.shares_hosts(server) and directory.running(server):
                places = {server, path.resolve().parent}  # of both versions
                plans = [read_json(place / "plan.json") or {} for place in places]
                hosts = [entry for plan in plans for entry in plan.get("hosts", [])]
                ranks = [rank for entry in hosts if entry["host"] == host for rank in entry["ranks"]]
                used[server.name] = frozenset(cpu for rank in ranks for cpu in rank["domain_cpus"])
        except (AttributeError, KeyError, OverflowError, TypeError):
            raise ValueError(f"{server} is damaged: which CPUs its model uses is not known") from None
    return used
