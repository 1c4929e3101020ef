# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of jobs on Kubernetes, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.status import elapsed, progress_of
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, duration


def details(entry: Mapping[str, Any], now: datetime) -> str:
    """Return one job on Kubernetes in full: its pods, their nodes, and what each of its ranks does.

    entry: as jobs.entry returns it.
    """
    status, place = entry["status"], entry["kubernetes"]
    lines = [f"job {status['job']}: {status['state']}" + (f", {status['reason']}" if status["reason"] else "")]
    owner = f" by {place['user']}" if place["user"] else ""
    lines.append(f"{place['kind']} {place['name']} in namespace {place['namespace']}, started{owner}")
    took = elapsed(status, now)
    times = f"started {status['started']}" + (f", ended {status['ended']}" if "ended" in status else "")
    lines.append(times + (f", {took}" if took else ""))
    if entry["path"]:
        lines.append(f"on the volume: {entry['path']}")
    lines += [f"note: {note}" for note in status.get("notes", [])]
    if "advice" in status:
        lines.append(str(status["advice"]))
    if entry["progress"]:
        lines.append(progress_of(entry, now))
    rows = [("pod", "node", "state", "restarts", "reason")]
    rows += [
        (pod["pod"], pod["node"] or "none", pod["phase"], str(pod["restarts"]), pod["reason"]) for pod in place["pods"]
    ]
    lines += columns(rows) if rows[1:] else ["It has no pod."]
    lines += ranks_table(entry["ranks"])
    return "\n".join(lines)


def ranks_table(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what each rank has last reported, as lines of a table; none without ranks."""
    if not ranks:
        return []
    rows = [("rank", "pod", "step", "CPU time", "memory")]
    for rank in ranks:
        step = rank.get("step")
        rows.append(
            (
                str(rank.get("rank", "")),
                str(rank.get("host", "")),
                "" if step is None else str(step),
                duration(rank["cpu_seconds"]) if "cpu_seconds" in rank else "",
                f"{rank['rss_bytes'] / 2**30:.2f} GiB" if "rss_bytes" in rank else "",
            )
        )
    return columns(rows)


def volume_table(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return job directories of a volume as a table. jobs: as pod list prints them."""
    if not jobs:
        return "The volume has no directory of it."
    rows = [("on the volume", "state", "started", "ended", "size", "reason")]
    for job in sorted(jobs, key=lambda entry: str(entry.get("started") or ""), reverse=True):
        rows.append(
            (
                f"jobs/{job['name']}-{job['start']}",
                str(job.get("state") or "unknown"),
                str(job.get("started") or ""),
                str(job.get("ended") or ""),
                f"{(job.get('bytes') or 0) / 2**20:.1f} MiB",
                str(job.get("reason") or ""),
            )
        )
    return "\n".join(columns(rows))


def duplicate(name: str, namespace: str) -> str:
    """Return the message for a host and Kubernetes that have a job of one name."""
    return (
        f"Job {name} is on the hosts and in namespace {namespace}; this is the one on the hosts. For the other, name "
        "an inventory without these hosts."
    )
