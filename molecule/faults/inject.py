"""Start jobs as a user does, make something go wrong in mid-run, and compare the outcome with the expected one.

Called by verify.yml, see tests/support/cluster.py. Exits with 1 when a job ended otherwise than it should, or anything
of it is left behind. Some only, by their names: JOURNEYS="a_rank_stalls a_host_dies".
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    HEAD,
    Play,
    addresses,
    attempts,
    directory,
    docker,
    job_file,
    kill_launcher,
    log,
    network,
    on,
    orphans,
    status,
    train,
    until,
)
from support.journeys import Journey, check, make

# A clear end must be there this many seconds after the fault; generous, because the hosts share few cores.
LIMIT = 120.0
# The step after which a fault is made, and the one at which steps.py makes its own.
UNDER_WAY = 25
ADDRESSES = addresses()


@dataclass
class Fault:
    """One fault: the job, what is done in mid-run and undone afterwards, and the outcome.

    state, reason: how the job ends; part of the reason of a failed job, or of the first attempt of a restarted one.
    meanwhile: what else is checked while it runs. shown: what train.yml must show, too.
    """

    name: str
    state: str
    reason: str
    job: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    inject: Callable[[str], Any] = lambda _job: None
    meanwhile: Callable[[str], Any] = lambda _job: None
    mend: Callable[[str], Any] = lambda _job: None
    shown: str = ""

    @property
    def restarted(self) -> bool:
        return bool(self.job.get("restarts"))


def fill(job: str) -> None:
    # The directory that checkpoints go to becomes a small file system, so that the next one does not fit.
    on(HEAD, f"mount -t tmpfs -o size=9m,uid=1000 tmpfs {directory(job)}/output", user="root", fails=False)


def unplug(host: str) -> None:
    docker("network", "disconnect", network(), CONTAINERS[host])


def plug(host: str) -> None:
    docker("network", "connect", "--ip", ADDRESSES[host], "--alias", host, network(), CONTAINERS[host])


def second(job: str) -> None:
    """Start another job on hosts that this one has locked; then let this one end."""
    path = file_of("fault-second", Fault("a second job", "failed", "", job={"hosts": 2}))
    output = train(path).fail()
    refused = f"is locked by job {job}" in output and not status("fault-second")
    check(refused, f"a second job on the same hosts was not refused: {output[-800:]}")
    on(HEAD, f"touch {directory(job)}/finish", fails=False)


FAULTS = [
    Fault("nothing goes wrong", "succeeded", "", env={"UNTIL": "finish"}, meanwhile=second),
    Fault("a rank raises", "failed", "rank 1 on node1 failed: ValueError: the label of sample 1234 is missing",
          env={"FAULT": "raise"}, shown="ValueError: the label of sample 1234 is missing"),
    Fault("the ranks form no group", "failed", "the 3 ranks formed no group", env={"FAULT": "alone"}),
    Fault("a rank stalls", "failed", "rank 2 on node2 is here", job={"stall_seconds": 12}, env={"FAULT": "stall"}),
    Fault("a rank stalls before the first step", "failed", "rank 2 on node2 is here",
          job={"stall_seconds": 12}, env={"FAULT": "stall early"}),
    Fault("mpirun is killed", "succeeded", "", job={"restarts": 1}, inject=kill_launcher),
    Fault("the disk is full", "failed", "rank 0 on node0 failed", inject=fill,
          mend=lambda job: on(HEAD, f"umount {directory(job)}/output", user="root")),
    Fault("a rank runs out of memory", "succeeded", "out of memory", job={"restarts": 1}, env={"FAULT": "memory"}),
    Fault("a host drops off the network", "succeeded", "node1", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: unplug("node1"), mend=lambda _job: plug("node1")),
    Fault("a host dies", "succeeded", "node2", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: docker("kill", CONTAINERS["node2"]),
          mend=lambda _job: docker("start", CONTAINERS["node2"])),
]  # fmt: skip


def file_of(name: str, fault: Fault) -> Path:
    """Write the job's file and return its path."""
    script = str(ROOT / "molecule/shared/jobs/steps.py")
    return job_file({"name": name, "script": script, "kind": "torch", "env": {"STEPS": 60, **fault.env}, **fault.job})


def lost_steps(job: str) -> int:
    """Return how many steps the job made twice."""
    steps = [int(line.split()[1]) for line in log(job).splitlines() if line.startswith("step ")]
    return sum(max(0, before - after + 1) for before, after in zip(steps, steps[1:]))


def run(name: str, fault: Fault, play: Play) -> str:
    """Follow a job to its end, and return the outcome. Raises WrongError."""
    there = until(lambda: f"step {UNDER_WAY} of" in log(name) or play.ended())
    check(there, f"it never came to step {UNDER_WAY}")
    check(status(name), f"it was not started\n{play.output()[-1500:]}")
    injected = time.monotonic()
    fault.inject(name)
    fault.meanwhile(name)
    until(lambda: status(name).get("state") not in (None, "running") or len(attempts(name)) > 1)
    answered = time.monotonic() - injected
    until(lambda: status(name).get("state") != "running")
    output, end = play.wait(), status(name)
    reason = end.get("reason") or "; ".join(attempt["reason"] for attempt in attempts(name) if attempt["reason"])
    state = f"state {end.get('state')} ({reason}) where {fault.state} was expected\n{output[-1500:]}"
    check(end.get("state") == fault.state, state)
    check(fault.reason in reason, f"reason {reason!r} does not say {fault.reason!r}")
    check(fault.shown in output, f"train.yml does not show {fault.shown!r}")
    check(len(attempts(name)) == 1 + fault.restarted, f"it was started {len(attempts(name))} times")
    check(fault.state == "succeeded" or answered < LIMIT, f"the end came {answered:.0f} s after the fault")
    outcome = f"{fault.state} after {answered:.0f} s, {lost_steps(name)} steps lost"
    return f"{fault.name}: {outcome}. {reason.splitlines()[0] if reason else ''}"


def journey(number: int, fault: Fault) -> Journey:
    """Return what makes the fault, with its name."""

    def made() -> list[str]:
        name = f"fault-{number}"
        play = train(file_of(name, fault))
        try:
            outcome = run(name, fault, play)
        finally:
            if not play.ended():
                play.kill(signal.SIGTERM)
                print(play.output()[-3000:])
            fault.mend(name)
            # A rank on a host that was cut off ends by itself after a minute without its supervisor.
            until(lambda: not orphans(name), 120)
        left = orphans(name)
        check(not left, f"left behind: {', '.join(left)}")
        return [outcome]

    made.__name__ = fault.name.replace(" ", "_")
    return made


if __name__ == "__main__":
    sys.exit(make([[journey(number, fault)] for number, fault in enumerate(FAULTS)]))
