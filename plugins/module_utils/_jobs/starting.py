# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a job on its head: write its directory on every host, then start its supervisor; or leave all as it was."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    archive,
    directory,
    inference_requests,
    placing,
    remote,
    supervisor,
    transfers,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.placing import Placement
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import members
from ansible_collections.amx.cluster.plugins.module_utils._jobs.start_request import Start

# Seconds that a host has to write its job directory: a project has many files, a prediction many chunks.
PLACE = 600
# Seconds that a host has to start its server, or to replace its instances one after the other.
SERVE = 3600
# Copy the directory $3 in $2 of the host $1 to the same place here.
COPY = 'set -o pipefail; mkdir -p "$2"; ssh -o BatchMode=yes "$1" tar -C "$2" -c "$3" | tar -C "$2" -x'


def start(request: Start, umask: int) -> dict[str, Any]:
    """Start a job; return {path, moved_to: where the previous run is now}.

    umask: the one with which scripts run. Raises ValueError where the job does not start; then every host has what it
    had before.
    """
    here = request.run.settings.head
    try:
        if request.source:
            placing.check_unused(request.path, here)  # by another start since the plan
            copy(request.source, request.path)
        placement = request.placement()
        on_head = replace(placement, files={**placement.files, **request.files_of_head})
        # First: the head knows whether the job was started elsewhere meanwhile.
        moved = placing.place(on_head, here, keep_replaced=True)
        placement = replace(placement, undone=moved["undone"])
    except OSError as error:
        raise ValueError(_io.disk_problem(str(error), here, request.jobs) or str(error)) from None
    shared = request.run.settings.shared_directory
    names = [host["host"] for host in request.plan["hosts"]]
    others = [] if shared else [host for host in members(request.run.settings, names) if host != here]
    os.chdir(request.path)  # by which others know that the start goes on
    try:
        chunks = place_on_others(request.plan, placement, others, here)
        if request.predicts:
            bring_chunks(request.path, {here: moved["chunks"], **chunks}, others)
        os.umask(0o077)
        if placement.served:
            problem = serve(request, [here, *others])
        else:
            problem = supervisor.detach(request.path, umask, placement.start, bool(request.prepared), placed=True)
        if problem:
            raise ValueError(problem)
    except BaseException:  # also Ctrl-C
        os.chdir("/")
        restore(request.plan, request.path, placement.start, others, here)
        raise
    moved_to = moved["moved_to"]
    if moved_to and not request.keep_previous and directory.is_derived(Path(moved_to)):
        with contextlib.suppress(OSError):  # the job has started
            _ownership.remove(Path(moved_to))
        moved_to = ""
    return {"path": str(request.path), "moved_to": moved_to}


def copy(source: str, path: Path) -> None:
    """Copy the job directory of another host to the same place here, as that of a run that has ended.

    Raises ValueError where that fails, or another start is about to begin here; and OSError.
    """
    _ownership.make(path.parent, _ownership.CONTAINER)
    with directory.creating(path):
        if directory.starting(path):
            raise ValueError(f"another start of the job {path.name} is going on on this host: wait for its end")
        words = ["bash", "-c", COPY, "bash", source, str(path.parent), path.name]
        copied = subprocess.run(words, capture_output=True, text=True, check=False)
        if copied.returncode:
            raise ValueError(f"{path} cannot be copied from {source}: {copied.stderr.strip()}")
        with contextlib.suppress(FileNotFoundError):
            os.utime(path / "job.json", (0, 0))  # it is no start that is about to begin: see directory.starting
        mark = _ownership.read(path)
        if "replaced" in mark:  # what lies at that place here is of another run: nothing is to be put back
            _ownership.mark(path, mark["what"], names=mark.get("names", []))


def serve(request: Start, hosts: Sequence[str]) -> str:
    """Start the server of each host, or have the one that runs there take the new version; return why that failed.

    The head is the first: where a new version does not serve there, no other host takes it.
    """
    here, path = request.run.settings.head, str(request.path)
    words = archive.command(request.plan, "serve", path, "start")
    for tried in filter(None, ([name for name in hosts if name == here], [name for name in hosts if name != here])):
        answers = remote.on_every_host(words, tried, here, seconds=SERVE)
        problems = [f"{host}: {' '.join(text.split())[-400:]}" for host, (code, text) in answers.items() if code]
        if problems:
            return "; ".join(problems)
    return ""


def place_on_others(
    plan: dict[str, Any], placement: Placement, hosts: Sequence[str], here: str
) -> dict[str, list[int]]:
    """Write the directory on the other hosts, and install the runtime where it is missing; return their chunks.

    Raises ValueError with what is wrong on which host.
    """
    words = archive.guarded(f"{plan['environment']}/bin/python", plan["runtime"], "place", "{host}")
    sent = json.dumps(placement.to_json()).encode()
    answers = remote.on_every_host(words, hosts, here, sent, PLACE)
    missing = [host for host, (code, _output) in answers.items() if code == archive.MISSING]
    problems = transfers.install(plan, missing, here)
    answers.update(remote.on_every_host(words, [host for host in missing if host not in problems], here, sent, PLACE))
    chunks = {}
    for host, (code, output) in answers.items():
        if host in problems:
            continue
        try:
            if code:
                raise ValueError(" ".join(output.split())[-400:] or f"exit code {code}")
            answer = json.loads(output.splitlines()[-1])
            if answer.get("failed"):
                raise ValueError(answer["msg"])
            chunks[host] = answer["chunks"]
        except (ValueError, IndexError) as error:
            problems[host] = f"{host}: {error}"
    if problems:
        raise ValueError("; ".join(problems.values()))
    return chunks


def bring_chunks(job_directory: Path, chunks: dict[str, list[int]], others: Sequence[str]) -> None:
    """Write on every host which chunks the others have: after a host was lost, they have some that would be its own."""
    path = job_directory / inference_requests.CHUNKS / inference_requests.ELSEWHERE
    _io.write_json(path, chunks, 0o600)
    problems = transfers.run({host: [transfers.push(host, [path], "the list of chunks")] for host in others})
    if problems:
        raise ValueError("; ".join(problems.values()))


def restore(plan: dict[str, Any], path: Path, start: str, others: Sequence[str], here: str) -> None:
    """Put back what a start that failed has replaced, on every host that answers."""
    restored = directory.restore(path, start)
    # The server of each host takes a new version, or keeps the earlier one, whatever those of other hosts did.
    if others and (restored or plan["launcher"].get("shares_hosts")):
        remote.on_every_host(archive.command(plan, "restore", str(path), start), others, here)
