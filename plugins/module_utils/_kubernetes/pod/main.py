# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Program of a pod.

    pod train       the command of a pod that trains: torchrun is its child. The first pod supervises the job.
    pod rank        what torchrun starts for each rank: it becomes rank.py
    pod prepare     the command of the pod that puts models and data on the volume
    pod status | list | log | stop | pack | wait      for the control node, see reader.py

The image has PREFIX (virtual environment, programs, this library), the ConfigMap is mounted at JOB, the volume at
STORAGE, and SCRATCH is the pod's own. Nothing else of the cluster is used: no API.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import supervision
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import (
    launch,
    reader,
    rounds,
    supervisor,
    volume,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.member import Member
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod.places import (
    Job,
    Places,
    say,
    stack_of_image,
    write_outcome,
)

READS = ("status", "list", "log", "stop", "pack", "wait")
# Exit codes. Kubernetes starts a pod again that was lost, and none that has failed: torchrun has restarted its ranks.
FAILED, LOST = interface.FAILED, 128 + signal.SIGTERM
CODES = {"succeeded": 0, "lost": LOST}
ERRORS = (OSError, ValueError, KeyError, RuntimeError)

ENDED = "ended.json"  # on SCRATCH: how this pod has ended


class Deleted(Exception):
    """This pod has to end before it has started its ranks."""


def train(places: Places, environ: Mapping[str, str]) -> int:
    """Run this pod's part of the job; return its exit code, and leave its outcome for Kubernetes."""

    def end(*_signal: object) -> NoReturn:
        raise Deleted

    signal.signal(signal.SIGTERM, end)
    # The container was started again in the same pod: what Kubernetes cannot know is that the job has ended.
    before = read_json(places.scratch / ENDED)
    if before:
        write_outcome(places, before["state"], before["reason"], environ)
        say(f"the job has ended before: {before['state']}")
        return CODES.get(before["state"], FAILED)
    environ = {**environ, rounds.INCARNATION: uuid.uuid4().hex}
    pod = environ.get(POD, "")
    try:
        state, reason = run(places, environ)
    except Deleted:
        state, reason = "lost", f"pod {pod} was deleted or evicted before its ranks were started"
    except ERRORS as error:
        state, reason = "failed", str(error) if isinstance(error, (OSError, ValueError)) else repr(error)
        with contextlib.suppress(*ERRORS):
            leave_refusal(places, environ, reason)
    write_outcome(places, state, reason, environ)
    if state in supervisor.ENDED:
        with contextlib.suppress(OSError):
            write_json(places.scratch / ENDED, {"state": state, "reason": reason})
    say(f"pod {pod} has ended, the job is {state}{f': {reason}' if reason else ''}")
    return CODES.get(state, FAILED)


def run(places: Places, environ: Mapping[str, str]) -> tuple[str, str]:
    """Run this pod's part of the job to its end; return the state and why. Raises ValueError and OSError."""
    job = Job.read(places.job)
    number = launch.number_of(job.derived, environ)
    kept = job.kept(places)
    ended = supervisor.ended_before(kept, job.run.settings.since)
    if ended:
        say("the job has ended before this pod began: nothing is run again")
        if number == 0 and read_json(kept / "status.json") != ended:
            supervision.write_json(kept / "status.json", ended)
        return str(ended["state"]), str(ended["reason"])
    rounds.refuse(kept, number, "", "")
    stack = stack_of_image(places, job)
    volume.wait_for_prepared(places, job)
    start = launch.start_of(places, job, stack, environ)
    if number:
        member = Member(places, start, environ)

        def leave(*_signal: object) -> None:
            member.stop_wanted = True

        signal.signal(signal.SIGTERM, leave)
        return member.run()
    own = supervisor.PodSupervisor(places, start, environ)

    def stop(*_signal: object) -> None:
        if (kept / supervisor.STOP).exists():
            own.stop("stopped", "it was stopped on request")
        else:
            own.stop("lost", f"pod {start.pod} on node {start.node} was deleted or evicted")

    signal.signal(signal.SIGTERM, stop)
    state = own.supervise()
    return state, str(own.status["reason"])


def leave_refusal(places: Places, environ: Mapping[str, str], reason: str) -> None:
    """Write on the volume why this pod does not run its ranks: into the job's status where it is the first one."""
    job = Job.read(places.job)
    number, pod = launch.number_of(job.derived, environ), environ.get(POD, "")
    if number:
        rounds.refuse(job.kept(places), number, pod, reason)
        return
    node, since = environ.get("AMX_CLUSTER_NODE", ""), job.run.settings.since
    who = {"job": job.run.job.name, "pod": pod, "node": node, "since": since}
    supervisor.refuse(who, job.kept(places), f"pod {pod}: {reason}")


def main(words: Sequence[str]) -> None:
    action = words[0] if words else ""
    places = Places.of(os.environ)
    try:
        if action == "train":
            raise SystemExit(train(places, dict(os.environ)))
        if action == "rank":
            command, environ = launch.rank(places, Path.cwd(), dict(os.environ))
            os.execve(command[0], command, environ)
        elif action == "prepare":
            volume.prepare(places, dict(os.environ))
        elif action in READS:
            reader.read(places, words, os.environ.get(POD, ""))
        else:
            raise ValueError(f"usage: pod train | rank | prepare | {' | '.join(READS)}")
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        if action == "prepare":
            write_outcome(places, "failed", str(error), os.environ)
        raise SystemExit(f"amx.cluster: {error}") from None
