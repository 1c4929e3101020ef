# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and processes that run on a host now, so that nobody removes what they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes


def answer(path: str, seconds: float = 0.5, starting: str = "", host: str = "this host") -> dict[str, Any]:
    """Return the jobs, ranks and locks on this host.

    path: the directory of the job directories. seconds: how long CPU use is measured; with 0 it is not. starting: the
    name of a job that starts, whose own locks are left out. host: this host's name in the inventory. Raises OSError.
    """
    jobs = Path(path)
    here = processes.usage(None, seconds) if seconds else processes.find()
    return {
        "jobs": directory.jobs(jobs),
        "processes": [process for process in here if process["kind"] == "rank"],
        "environments": environments_in_use(jobs),
        "secrets_left": directory.ended_with_secrets(jobs, host),
        **processes.locked(jobs, host, starting),
    }


def in_use(jobs: Path, host: str) -> list[dict[str, Any]]:
    """Return the jobs that run or are being started now: [{job, hosts, why}].

    jobs: the directory of the job directories. host: this host's name in the inventory. hosts: those of the job, as far
    as they are known here.
    """
    reasons: dict[str, str] = {}
    mine = processes.find_in(jobs)
    running = {Path(job).name for job in processes.running_jobs(jobs, mine)}
    for job in sorted(running):
        status = read_json(jobs / job / "status.json") or {}
        reasons[job] = f"runs since {status['started']}" if "started" in status else "runs"
    for lock in directory.locked_by(jobs, host):
        reasons.setdefault(lock["job"], f"runs since {lock['since']}")
    for process in mine:
        reasons.setdefault(Path(process["job"]).name, f"has processes on {host} (such as {process['pid']})")
    for path in starting(jobs):
        reasons.setdefault(path.name, "is being started")
    return [{"job": job, "hosts": _hosts_of(jobs / job) or [host], "why": why} for job, why in reasons.items()]


def starting(jobs: Path) -> Iterator[Path]:
    """Yield the job directories that were created a moment ago and whose run has not begun yet."""
    for path in jobs.glob("*/job.json"):
        if directory.starting(path.parent) and directory.is_head(path.parent):
            yield path.parent


def environments_in_use(jobs: Path) -> list[str]:
    """Return the names of the virtual environments of running jobs that were started on this host, sorted.

    jobs: the directory of the job directories. Between two attempts of a job no process of it is on its other hosts.
    """
    running = {Path(job) for job in processes.running_jobs(jobs, processes.find_in(jobs))} | set(starting(jobs))
    plans = (read_json(path / "plan.json") or {} for path in running)
    return sorted({Path(plan["environment"]).name for plan in plans if plan.get("environment")})


def _hosts_of(job_directory: Path) -> list[str]:
    plan = read_json(job_directory / "plan.json") or {}
    return [str(host["host"]) for host in plan.get("hosts", [])]
