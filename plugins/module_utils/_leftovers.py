# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of jobs on a host: those of a running one, and those that a dead one left behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _job_directory

# What mpirun and its helpers on each host are called.
STARTERS = ("mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy")


def processes(jobs: Path, proc: Path = Path("/proc")) -> list[dict[str, Any]]:
    """List the processes of jobs whose directories lie in `jobs`.

    Those are ranks, which have the job's directory in their environment, and the starter's processes, which work in it.
    Only processes that this user may look into are seen.

    Returns [{pid, kind ("rank" or "starter"), job (its directory), ports (TCP ports on which it listens)}].
    """
    jobs = jobs.resolve()
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            kind, job = _of_a_job(entry)
        except OSError:
            continue  # it has ended, or is somebody else's
        if kind and job.parent == jobs:
            found.append({"pid": int(entry.name), "kind": kind, "job": str(job), "ports": listening_ports(entry)})
    return sorted(found, key=lambda process: process["pid"])


def _of_a_job(entry: Path) -> tuple[str, Path]:
    command = entry.joinpath("cmdline").read_bytes().split(b"\0")[0]
    if not command:
        return "", Path()  # a thread of the kernel, or a process that waits to be buried
    if os.path.basename(os.fsdecode(command)) in STARTERS:  # noqa: PTH119 it need not be a path
        return "starter", entry.joinpath("cwd").readlink()
    for variable in entry.joinpath("environ").read_bytes().split(b"\0"):
        name, _equals, value = variable.partition(b"=")
        if name == b"AMX_CLUSTER_JOB":
            return "rank", Path(os.fsdecode(value))
    return "", Path()


def listening_ports(entry: Path) -> list[int]:
    """Return the TCP ports, sorted, on which the process of a /proc/PID folder listens."""
    sockets, ports = set(), set()
    try:
        for descriptor in entry.joinpath("fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        for table in ("tcp", "tcp6"):
            for line in entry.joinpath("net", table).read_text(encoding="ascii").splitlines()[1:]:
                _slot, local, _remote, state, *_rest = fields = line.split()
                if state == "0A" and fields[9] in sockets:
                    ports.add(int(local.rpartition(":")[2], 16))
    except OSError:
        return []
    return sorted(ports)


def running(jobs: Path, found: list[dict[str, Any]]) -> list[str]:
    """Return the directories of the jobs in `jobs` that run now and were started on this host.

    found: what `processes` returns. A job runs when its supervisor does, or when launch.sh, started by hand, has its
    mpirun here.
    """
    jobs = jobs.resolve()
    by_hand = {process["job"] for process in found if process["kind"] == "starter"}
    try:
        folders = [folder for folder in jobs.iterdir() if (folder / "status.json").is_file()]
    except OSError:
        folders = []
    return sorted({str(folder) for folder in folders if _job_directory.running(folder)} | by_hand)
