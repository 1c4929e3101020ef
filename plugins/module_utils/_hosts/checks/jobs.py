# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check for processes of jobs that have ended."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import FAILURE, Cluster, Found, check
from ansible_collections.amx.cluster.plugins.module_utils._text import count


@check(
    FAILURE,
    cause="Ranks of a dead job occupy cores, memory and ports",
    advice="End them on this host with kill",
)
def orphaned_processes(cluster: Cluster) -> Iterator[Found]:
    if cluster.head not in cluster.infos:
        return  # whether a job is running is known on its head only
    running = set(cluster.infos[cluster.head]["running_jobs"])
    for host, info in cluster.infos.items():
        for job in sorted({process["job"] for process in info["processes"]} - running):
            orphans = [process for process in info["processes"] if process["job"] == job]
            pids = " ".join(str(process["pid"]) for process in orphans)
            ports = sorted({port for process in orphans for port in process["ports"]})
            listening = f" (listening on port {', '.join(map(str, ports))})" if ports else ""
            processes = count(len(orphans), "orphaned process", "orphaned processes")
            yield Found(
                host,
                f"{processes} of the job in {job}, which is not running: {pids}{listening}",
                f"End them on this host: kill {pids}",
            )
