# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of jobs, for a person to read."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._jobs import attempts, cost, progress
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import states
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, duration, wrapped

_COLOURS = {
    "running": _screen.GREEN,
    "waiting": _screen.YELLOW,
    "failed": _screen.RED,
    "lost": _screen.RED,
    "stopped": _screen.YELLOW,
}
NO_RANKS = "No rank of the job is running."
_LAST = 24  # cells that the last column of a table has at least; otherwise it is below the row
# Columns that are left out where the screen is too narrow, one after the other.
_DISPENSABLE = ("started", "owner", "where", "ranks", "cost (estimate)", "hosts", "left", "elapsed")


def overview(jobs: Sequence[Mapping[str, Any]], screen: Screen | None = None, now: datetime | None = None) -> str:
    """Return a table of jobs, the newest first: a line each, or several where the screen is narrow.

    jobs: each {name, user, status, progress} and, for one that is not on hosts of the inventory, `where` it is.
    """
    if not jobs:
        return "No job was started on this cluster."
    screen = screen or Screen()
    newest_first = sorted(jobs, key=lambda job: str(job["status"]["started"]), reverse=True)
    on_hosts = "hosts" if any(job.get("where") for job in jobs) else ""
    rows = [_row(job, now, on_hosts) for job in newest_first]
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    while _width(titles, rows) > screen.columns and set(titles) & set(_DISPENSABLE):
        titles.remove(next(title for title in _DISPENSABLE if title in titles))
    lines = columns([titles, *([row[title] or "-" for title in titles] for row in rows)])
    width = max(map(_screen.cells, lines)) + 2
    beside = screen.columns - width >= _LAST
    shown = []
    for line, row, job in zip(lines, [{"state": ""}, *rows], [None, *newest_first]):
        last = wrapped("", _how_far(job, now) if job else "progress", screen.columns - (width if beside else 4))
        if beside:
            first = f"{_screen.padded(line, width)}{last[0]}" if last else line
            below = [" " * width + part.strip() for part in last[1:]]
        else:
            first = _screen.fit(line, screen.columns, screen.characters)
            below = ["    " + part.strip() for part in last]
        colour = _COLOURS.get(row["state"], "")
        if colour:
            first = first.replace(row["state"], _screen.painted(row["state"], colour, screen.colours), 1)
        shown += [first, *below]
    return "\n".join(shown)


def _row(entry: Mapping[str, Any], now: datetime | None, on_hosts: str) -> dict[str, str]:
    """Return the cells of a job by the titles of their columns, but for the last, empty where nothing is known.

    on_hosts: where a job is that is nowhere else.
    """
    status = entry["status"]
    return {
        "job": entry["name"],
        "where": entry.get("where") or on_hosts,
        "state": shown_state(status),
        "owner": entry.get("user") or "",
        "started": _minute(str(status["started"])),
        "elapsed": elapsed(status, now),
        "left": progress.left(entry["progress"]) if status["state"] == "running" and entry["progress"] else "",
        "hosts": str(status["hosts"]),
        "ranks": str(status["ranks"]),
        "cost (estimate)": cost.shown(status.get("cost")),
    }


def _how_far(entry: Mapping[str, Any], now: datetime | None) -> str:
    status = entry["status"]
    waiting = status.get("waiting", "") if status["state"] == "running" else ""
    return status["reason"] or waiting or preparing(status, now) or progress_of(entry, now)


def shown_state(status: Mapping[str, Any]) -> str:
    """Return the state of a job for a person: one that runs, and waits before its first attempt, is waiting."""
    waits = status["state"] == "running" and status.get("waiting") and not status.get("attempts")
    return "waiting" if waits else str(status["state"])


def preparing(status: Mapping[str, Any], now: datetime | None = None) -> str:
    """Return since when a job's data are being prepared; empty where they are not."""
    if status["state"] != "running" or not status.get("preparing"):
        return ""
    since = datetime.fromisoformat(status["preparing"])
    seconds = ((now or datetime.now(timezone.utc)) - since).total_seconds()
    return f"preparing the data, {duration(max(0.0, seconds))}"


def progress_of(entry: Mapping[str, Any], now: datetime | None) -> str:
    """Return how far a job is, with its end while it runs."""
    if not entry["progress"]:
        return ""
    running = entry["status"]["state"] == "running"
    at = (now or datetime.now(timezone.utc)).timestamp()
    return progress.describe(entry["progress"], now=at if running else None)


def _width(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> int:
    return sum(max(map(_screen.cells, [title, *(row[title] or "-" for row in rows)])) + 2 for title in titles) - 2


def elapsed(status: Mapping[str, Any], now: datetime | None = None) -> str:
    """Return how long a job has run, or ran; empty where its start or its end is not known."""
    if not status["started"] or (status["state"] == "lost" and "ended" not in status):
        return ""
    end = datetime.fromisoformat(status["ended"]) if status.get("ended") else now or datetime.now(timezone.utc)
    return duration(max(0.0, (end - datetime.fromisoformat(status["started"])).total_seconds()))


def _minute(time: str) -> str:
    """Return a time such as 2026-11-20T13:00:00+00:00 to the minute, as its own clock showed it."""
    return time[:16].replace("T", " ")


def entries(
    jobs: Sequence[Mapping[str, Any]], hosts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return jobs with their ranks, as the JSON document has them: {name, path, user, status, progress, ranks}.

    jobs: as the module jobs_info returns them from the head: {path, user, status, progress}. hosts: {host: the
    processes of ranks that it returns there}; each rank of a job is such a process and its host.
    """
    return [
        {
            "name": PurePosixPath(job["path"]).name,
            **{key: value for key, value in job.items() if key != "start"},
            "ranks": [
                {"host": host, **process}
                for host, processes in hosts.items()
                for process in processes
                if process["job"] == job["path"]
            ],
        }
        for job in jobs
    ]


def servers(entry: Mapping[str, Any], gathered: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return how the hosts of a served model are: {host: {instances, answering, problem}}.

    entry: the job as the head has it. gathered: {host: what jobs_info returned there}; without `jobs` where it did not
    answer.
    """
    status, hosts = entry["status"], {}
    for host in status["servers"]:
        jobs = gathered.get(host, {}).get("jobs")
        own: dict[str, Any] = next(
            (job["status"] for job in jobs or [] if PurePosixPath(job["path"]).name == entry["name"]), {}
        )
        instances = own.get("instances", [])
        missing = [
            f"instance {instance['instance']} "
            + " and ".join(filter(None, [instance["error"], "is starting" * (instance["state"] == states.STARTING)]))
            for instance in instances
            if instance["state"] != states.READY
        ]
        problem = own.get("reason", "")
        if own.get("state") != "running":
            problem = f"{own.get('state', 'no server')} {problem}".strip()
        if jobs is None:
            problem = "the host did not answer"
        elif not problem and own["start"] != status["start"]:
            problem = "it serves another version: serve the model again"
        hosts[host] = {
            "instances": len(instances),
            "answering": states.answering(own) if own.get("state") == "running" else 0,
            "problem": problem or "; ".join(missing),
        }
    return hosts


def _servers(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines on the hosts of a served model. hosts: as `servers` returns them."""
    answering, every = (sum(host[key] for host in hosts.values()) for key in ("answering", "instances"))
    rows = [
        (f"  {host}", f"{state['answering']} of {state['instances']}", state["problem"])
        for host, state in hosts.items()
    ]
    return [f"{answering} of {count(every, 'instance')} on {count(len(hosts), 'host')} answer", *columns(rows)]


def without_secrets(entry: Mapping[str, Any], hosts: Container[str]) -> dict[str, Any]:
    """Return a job as the module jobs_info has it, whose status does not say that its secrets are on these hosts."""
    status = dict(entry["status"])
    left = [host for host in status.pop("secrets_left", []) if host not in hosts]
    return {**entry, "status": {**status, **({"secrets_left": left} if left else {})}}


def details(
    entry: Mapping[str, Any],
    screen: Screen | None = None,
    now: datetime | None = None,
) -> str:
    """Return one job in full: its status, and what each of its ranks does. entry: as entries() returns it."""
    status = entry["status"]
    screen = screen or Screen()
    state = shown_state(status)
    state = _screen.painted(state, _COLOURS.get(state, ""), screen.colours)
    lines = [f"job {status['job']}: {state}" + (f", {status['reason']}" if status["reason"] else "")]
    started = f"started {status['started']}" + (f" by {entry['user']}" if entry.get("user") else "")
    ended = f", ended {status['ended']}" if "ended" in status else ""
    took = elapsed(status, now)
    lines.append(f"{started}{ended}" + (f", {'ran' if ended else 'running for'} {took}" if took else ""))
    lines += [*attempts.restarts(status.get("attempts", [])), *(f"note: {note}" for note in status.get("notes", []))]
    if status.get("waiting"):
        lines.append(status["waiting"])
    if "advice" in status:
        lines.append(status["advice"])
    if "on_end" in status:
        lines.append(status["on_end"]["text"])
    if status.get("secrets_left"):
        left = ", ".join(status["secrets_left"])
        lines.append(
            f"{left} did not answer at its end, and may have its secrets.json still: playbooks/status.yml removes it "
            "once the host answers"
        )
    if preparing(status, now):
        lines.append(preparing(status, now))
    if entry["progress"]:
        lines.append(progress_of(entry, now))
    if isinstance(status.get("servers"), Mapping):
        lines += _servers(status["servers"])
    rows = [("host", "rank", "pid", "CPUs busy", "of CPUs", "threads", "memory")]
    rows += [
        (
            rank["host"],
            str(rank["rank"]) if rank["rank"] >= 0 else "-",
            str(rank["pid"]),
            f"{rank.get('cpu', 0.0):.2f}",
            rank["cpus"],
            str(rank["threads"]),
            f"{rank['rss_bytes'] / 2**30:.2f} GiB",
        )
        for rank in entry["ranks"]
    ]
    lines += columns(rows) if rows[1:] else [NO_RANKS]
    return "\n".join(lines)
