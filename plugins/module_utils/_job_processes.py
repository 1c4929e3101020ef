# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job on one host: found by what rank.py told them, whoever their parent is now."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROC = Path("/proc")


def find(folder: Path | None = None, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return this host's processes of the job in `folder`, or of all jobs, ordered by pid.

    Each is {pid, job (its folder), rank, threads, cpus (the CPUs it may use, as the kernel lists them), rss_bytes,
    cpu_seconds, command}. Processes of other users cannot be seen and are left out.
    """
    wanted = None if folder is None else str(folder.resolve())
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = dict(
                word.split(b"=", 1) for word in (entry / "environ").read_bytes().split(b"\0") if b"=" in word
            )
            job = os.fsdecode(environ.get(b"AMX_CLUSTER_JOB", b""))
            if not job or (wanted is not None and job != wanted):
                continue
            # The command's name stands in parentheses and may hold spaces and parentheses itself.
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if stat[0] == "Z":
                continue
            status = (entry / "status").read_text(encoding="utf-8", errors="replace")
            allowed = next(line for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", errors="replace")
        except (OSError, StopIteration):
            continue  # it has ended meanwhile, or it is not ours to see
        found.append(
            {
                "pid": int(entry.name),
                "job": job,
                "rank": int(environ.get(b"RANK", b"-1")),
                "threads": int(stat[17]),
                "cpus": allowed.split(":")[1].strip(),
                "rss_bytes": int(stat[21]) * page,
                "cpu_seconds": (int(stat[11]) + int(stat[12])) / tick,
                "command": command.strip(),
            }
        )
    return sorted(found, key=lambda process: process["pid"])


def usage(folder: Path | None, seconds: float) -> list[dict[str, Any]]:
    """Return what `find` does, with the CPUs each process kept busy over the next `seconds` under "cpu" (1.0: one)."""
    before = {process["pid"]: process["cpu_seconds"] for process in find(folder)}
    began = time.monotonic()
    time.sleep(seconds)
    now = find(folder)
    elapsed = time.monotonic() - began
    return [
        {**process, "cpu": round((process["cpu_seconds"] - before.get(process["pid"], 0.0)) / elapsed, 2)}
        for process in now
        if process["pid"] in before
    ]


def end(folder: Path, grace: float, find_now: Callable[[Path], list[dict[str, Any]]] = find) -> list[dict[str, Any]]:
    """End this host's processes of the job: ask them (SIGTERM), and after `grace` seconds end them (SIGKILL).

    Returns those that there were. Raises TimeoutError naming those that are left 5 seconds after SIGKILL.
    """
    ended = {process["pid"]: process for process in find_now(folder)}
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        left = find_now(folder)
        ended.update({process["pid"]: process for process in left})
        for process in left:
            try:
                os.kill(process["pid"], number)
            except ProcessLookupError:
                continue
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = find_now(folder)
        if not left:
            return sorted(ended.values(), key=lambda process: process["pid"])
    raise TimeoutError(f"processes {', '.join(str(process['pid']) for process in left)} of {folder} do not end")
