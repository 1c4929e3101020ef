# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of jobs, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress
from ansible_collections.amx.cluster.plugins.module_utils._text import columns


def overview(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of jobs, a line each.

    jobs: as the module jobs_info returns them from the head: {path, status, progress}.
    """
    if not jobs:
        return "No job was started on this cluster."
    rows = [("job", "state", "started", "hosts", "ranks", "how far")]
    for job in jobs:
        status = job["status"]
        far = progress.describe(job["progress"]) if job["progress"] else ""
        rows.append(
            (
                PurePosixPath(job["path"]).name,
                status["state"],
                status["started"],
                str(status["hosts"]),
                str(status["ranks"]),
                status["reason"] or far,
            )
        )
    return "\n".join(columns(rows))


def document(
    jobs: Sequence[Mapping[str, Any]], hosts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """Return jobs with their ranks for programs: {jobs: [{name, path, status, progress, ranks: [{host, ...}]}]}.

    jobs, hosts: as in details.
    """
    return {
        "jobs": [
            {
                "name": PurePosixPath(job["path"]).name,
                **job,
                "ranks": [
                    {"host": host, **rank}
                    for host, ranks in hosts.items()
                    for rank in ranks
                    if rank["job"] == job["path"]
                ],
            }
            for job in jobs
        ]
    }


def details(job: Mapping[str, Any], hosts: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return one job in full: how it stands, and what each of its ranks does.

    job: an entry of the module jobs_info. hosts: {host: that module's ranks there}.
    """
    status = job["status"]
    lines = [f"job {status['job']}: {status['state']}" + (f", {status['reason']}" if status["reason"] else "")]
    lines.append(f"started {status['started']}" + (f", ended {status['ended']}" if "ended" in status else ""))
    if "advice" in status:
        lines.append(status["advice"])
    if job["progress"]:
        lines.append(progress.describe(job["progress"]))
    rows = [("host", "rank", "pid", "CPUs busy", "of CPUs", "threads", "memory")]
    for host, ranks in hosts.items():
        for rank in ranks:
            if rank["job"] == job["path"]:
                rows.append(
                    (
                        host,
                        str(rank["rank"]),
                        str(rank["pid"]),
                        f"{rank.get('cpu', 0.0):.2f}",
                        rank["cpus"],
                        str(rank["threads"]),
                        f"{rank['rss_bytes'] / 2**30:.2f} GiB",
                    )
                )
    lines += columns(rows) if rows[1:] else ["No rank of the job is running."]
    return "\n".join(lines)
