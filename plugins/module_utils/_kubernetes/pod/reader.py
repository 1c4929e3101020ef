# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data of a job's directory on the volume that the control node reads by a command in one of its pods.

pod status | log | stop [START]     of the pod's own job, or of the directory that ends in START
pod list                            of all jobs on the volume
pod pack START                      makes a tar file of the job's results on the volume, for this pod
pod wait                            does nothing, for a pod that is only read through; removes such files at its end
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tarfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set, project
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import READER_SECONDS
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import rounds
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import Job, Places
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.supervisor import STOP

# What is not packed: it is on the volume for all jobs, was brought along, or is nobody else's business.
NOT_PACKED = frozenset(("data", "models", project.DIRECTORY, secret_env.FILE, rounds.PODS, rounds.ENDPOINT, ".reserve"))


PACKED = "packed results"
"""What the mark of a directory says in which a pod has packed results."""


def directory_of(places: Places, start: str) -> Path:
    """Return the directory of a job on the volume. start: how its name ends; empty for this pod's own job.

    Raises ValueError where there is none, or several.
    """
    jobs = places.storage / "jobs"
    if not start:
        return Job.read(places.job).kept(places)
    if "/" in start or start.startswith("."):
        raise ValueError(f"{start!r} is not a start of a job")
    matches = [path for path in _directories(jobs) if path.name == start or path.name.endswith(f"-{start}")]
    if len(matches) != 1:
        names = ", ".join(path.name for path in matches) or "no job"
        raise ValueError(f"{start}: the volume has {names} in jobs/")
    return matches[0]


def _directories(jobs: Path) -> list[Path]:
    try:
        return sorted(path for path in jobs.iterdir() if path.is_dir() and not path.name.startswith("."))
    except FileNotFoundError:
        return []


def status(directory: Path) -> dict[str, Any]:
    """Return how a job stands: what its supervisor has written, null where that is missing."""
    ranks = read_json(directory / "ranks.json")
    return {
        "version": 1,
        "status": read_json(directory / "status.json"),
        "progress": read_json(directory / "progress.json") or progress.of_ranks(ranks or {}) or None,
        "ranks": ranks,
        "outcome": read_json(directory / "results.json"),
        "directory": f"jobs/{directory.name}",
    }


def jobs(places: Places) -> dict[str, Any]:
    """Return all jobs on the volume, the newest first; state: "created" where none of its pods has run."""
    entries = []
    for directory in _directories(places.storage / "jobs"):
        status = read_json(directory / "status.json") or {}
        derived, run = (read_json(directory / name) or {} for name in ("kubernetes.json", "job.json"))
        name, _dash, start = directory.name.rpartition("-")
        if derived and run:
            name, start = derived["name"], run["settings"]["start"]
        entries.append(
            {
                "name": name,
                "start": start,
                "state": status.get("state", "created"),
                "reason": status.get("reason", ""),
                "started": status.get("started"),
                "ended": status.get("ended"),
                "bytes": size(directory),
            }
        )
    return {"version": 1, "jobs": sorted(entries, key=lambda job: str(job["started"] or ""), reverse=True)}


def size(directory: Path) -> int:
    """Return the bytes of the files in a directory; what has gone meanwhile, or cannot be read, counts nothing."""
    total = 0
    for parent, _directories_in_it, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total


def stop(directory: Path) -> dict[str, Any]:
    """Ask the supervisor of a job to end it; return its state before. Raises OSError."""
    status = read_json(directory / "status.json") or {}
    if status.get("state", "running") in ("running", "lost"):
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / STOP, {"version": 1, "requested": time.time()}, 0o600)
    return {"version": 1, "directory": f"jobs/{directory.name}", "state": status.get("state")}


def remove_packed(jobs_directory: Path, reader: str = "", age: float = 0) -> None:
    """Remove the results that were packed: by one pod, or by whichever did more than so many seconds ago.

    Each pod packs into a directory that it has marked as its own; what has no such mark stays, whatever its name.
    """
    with contextlib.suppress(OSError):
        for directory in jobs_directory.iterdir():
            with contextlib.suppress(OSError):
                mark = _ownership.read(directory)
                if mark.get("what") != PACKED or (reader and mark.get("reader") != reader):
                    continue
                written = [path.stat().st_mtime for path in directory.iterdir() if path.name != _ownership.MARK]
                if time.time() - max(written, default=directory.stat().st_mtime) >= age:
                    _ownership.remove(directory)


def pack(directory: Path, reader: str) -> dict[str, Any]:
    """Make the tar file of a job's results; return its path on the volume, its size and its SHA-256. Raises OSError.

    reader: the pod that does this: another one may pack the same directory at the same time.
    """
    # Of pods that could not remove theirs, such as those of nodes that were lost.
    remove_packed(directory.parent, age=2 * READER_SECONDS)
    place = directory.with_name(f".packed-{reader}")
    if not _ownership.make(place, PACKED, reader=reader) and _ownership.read(place).get("reader") != reader:
        raise ValueError(f"{place} on the volume was not made by this pod, which needs that place: rename it")
    path = place / f"{directory.name}.tar"
    opened = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        with (
            os.fdopen(opened, "wb") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            tar.add(directory, arcname=".", filter=_packed)
    except OSError:
        _ownership.remove(place)  # of a volume that is full, it has taken the rest
        raise
    return {"version": 1, "path": str(path), "bytes": path.stat().st_size, "sha256": file_set.sha256(path)}


def _packed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.partition("./")[2].partition("/")[0] in NOT_PACKED else member


def wait(places: Places, reader: str) -> None:
    """Sleep until this process is to end, then remove what this pod has packed."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_signal: ending.set())
    while not ending.wait(60):
        pass
    remove_packed(places.storage / "jobs", reader)


def read(places: Places, words: Sequence[str], reader: str = "") -> None:
    """Do one of the actions above, and print what it gives. reader: this pod's name. Raises ValueError, OSError."""
    action, start = words[0], "".join(words[1:2])
    if action == "wait":
        wait(places, reader)
        return
    if action == "list":
        _print(jobs(places))
        return
    if action == "pack" and not start:
        raise ValueError("usage: pod pack START")
    directory = directory_of(places, start)
    if action == "status":
        _print(status(directory))
    elif action == "stop":
        _print(stop(directory))
    elif action == "pack":
        _print(pack(directory, reader))
    elif (directory / "log").exists():
        with (directory / "log").open("rb") as log:
            shutil.copyfileobj(log, sys.stdout.buffer)
        sys.stdout.flush()


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
