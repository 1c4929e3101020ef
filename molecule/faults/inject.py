"""Start jobs as a user does, make something go wrong in mid-run, and compare what becomes of each with what should.

Called by converge.yml, see tests/support/cluster.py. Prints a line for each fault and counts at the end; exits with 1
when a job ended otherwise than it should, or anything of it is left behind.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.cluster import (
    CONTAINERS,
    HEAD,
    NETWORK,
    PREFIX,
    SCENARIO,
    Play,
    addresses,
    docker,
    job_file,
    kill_mpirun,
    log,
    on,
    orphans,
    status,
    until,
)

# A clear end must be there this many seconds after the fault.
LIMIT = 60.0


@dataclass
class Fault:
    """One fault: the job, what is done in mid-run, what is seen meanwhile (what is wrong), what must come of it."""

    name: str
    state: str
    reason: str
    job: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    inject: Callable[[str], Any] = lambda _job: None
    meanwhile: Callable[[str], str] = lambda _job: ""
    mend: Callable[[str], Any] = lambda _job: None
    shown: str = ""


def fill(job: str) -> None:
    # The folder that checkpoints go to becomes a small file system, so that the next one does not fit.
    on(HEAD, f"mount -t tmpfs -o size=9m,uid=1000 tmpfs {PREFIX}/jobs/{job}/output", user="root")


def second(_job: str) -> str:
    """Start another job on hosts that this one holds. Returns what is wrong with the refusal."""
    path = file_of("fault-second", Fault("a second job", "failed", "", job={"hosts": 2}))
    output = Play("train", "-e", f"job={path}").wait(120)
    return "" if "is held by job" in output and not status("fault-second") else f"it was not refused: {output[-800:]}"


FAULTS = [
    # Long enough for another play to come to the point where it is refused.
    Fault("nothing goes wrong", "succeeded", "", env={"STEPS": 250}, meanwhile=second),
    Fault("nothing goes wrong, and the head only supervises", "succeeded", "", job={"hosts": ["node1", "node2"]}),
    Fault("a rank raises", "failed", "rank 1 on node1 failed: ValueError: the label of sample 1234 is missing",
          env={"FAULT": "raise"}, shown="ValueError: the label of sample 1234 is missing"),
    Fault("the ranks form no group", "failed", "This rank would train a model of its own", env={"FAULT": "alone"}),
    Fault("a rank stands still", "failed", "rank 2 on node2 is here",
          job={"stall_seconds": 12}, env={"FAULT": "stall"}),
    Fault("a rank stands still before the first step", "failed", "rank 2 on node2 is here",
          job={"stall_seconds": 12}, env={"FAULT": "stall early"}),
    Fault("mpirun is killed", "succeeded", "", job={"restarts": 1}, inject=kill_mpirun),
    Fault("the disk fills", "failed", "rank 0 on node0 failed", inject=fill,
          mend=lambda job: on("node0", f"umount {PREFIX}/jobs/{job}/output", user="root")),
    Fault("a rank runs out of memory", "succeeded", "", job={"restarts": 1}, env={"FAULT": "memory"}),
    Fault("a host drops off the network", "succeeded", "", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: docker("network", "disconnect", NETWORK, CONTAINERS["node1"]),
          mend=lambda _job: plug("node1")),
    Fault("a host dies", "succeeded", "", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: docker("kill", CONTAINERS["node2"]),
          mend=lambda _job: docker("start", CONTAINERS["node2"])),
]  # fmt: skip
ADDRESSES: dict[str, str] = {}


def plug(host: str) -> None:
    docker("network", "connect", "--ip", ADDRESSES[host], "--alias", host, NETWORK, CONTAINERS[host])


def file_of(name: str, fault: Fault) -> Path:
    """Write the job's file and return its path."""
    job = {"name": name, "script": str(SCENARIO / "jobs/steps.py"), "trainer": False, **fault.job}
    return job_file({**job, "env": {"STEPS": 60, **fault.env}})


def run(number: int, fault: Fault) -> tuple[str, int, bool]:
    """Run one. Returns what is wrong (nothing: an empty string), the steps lost, and whether the job recovered."""
    name = f"fault-{number}"
    play = Play("train", "-e", f"job={file_of(name, fault)}")
    lost, recovered, wrong = 0, False, ""
    try:
        if not until(lambda: "step 25 of" in log(name) or play.ended(), 240):
            return "it never came to step 25", 0, False
        if not status(name):
            return f"it was not started\n{play.output()[-1500:]}", 0, False
        injected = time.monotonic()
        fault.inject(name)
        wrong = fault.meanwhile(name)
        until(
            lambda: status(name).get("state") not in (None, "running") or len(status(name).get("attempts", [])) > 1,
            LIMIT + 30,
        )
        answered = time.monotonic() - injected
        until(lambda: status(name).get("state") != "running", 150)
        output = play.wait(60)
        end = status(name)
        text = log(name)
        attempts = end.get("attempts", [])
        recovered = end.get("state") == "succeeded" and len(attempts) > 1
        if recovered:
            steps = [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]
            lost = sum(
                1 for before, after in zip(steps, steps[1:]) if after <= before for _again in range(before - after + 1)
            )
        if end.get("state") != fault.state:
            wrong = f"state {end.get('state')} ({end.get('reason')}) where {fault.state} was expected\n{output[-1500:]}"
        elif fault.reason not in end["reason"]:
            wrong = f"reason {end['reason']!r} does not say {fault.reason!r}"
        elif fault.shown and fault.shown not in output:
            wrong = f"the play does not show {fault.shown!r}"
        elif fault.state != "succeeded" and answered > LIMIT:
            wrong = f"the end came {answered:.0f} s after the fault"
        said = end.get("reason") or "; ".join(attempt["reason"] for attempt in attempts if attempt["reason"])
        first = said.splitlines()[0] if said else ""
        print(f"{fault.name}: {end.get('state')} after {answered:.0f} s, {lost} steps lost. {first}", flush=True)
    finally:
        if not play.ended():
            play.kill(signal.SIGTERM)
            print(play.output()[-3000:])
        fault.mend(name)
        # A rank on a host that was cut off ends by itself after a minute without its supervisor.
        until(lambda: not orphans(name), 90)
        left = orphans(name)
    if left:
        wrong = wrong or f"left behind: {', '.join(left)}"
    return wrong, lost, recovered


def main() -> int:
    ADDRESSES.update(addresses())
    # Some only, by their number: FAULTS="0 3".
    wanted = os.environ.get("FAULTS", "").split()
    failed, recovered, lost, injected = [], 0, 0, 0
    for number, fault in enumerate(FAULTS):
        if wanted and str(number) not in wanted:
            continue
        wrong, steps, again = run(number, fault)
        injected += not fault.name.startswith("nothing")
        recovered += again
        lost += steps
        if wrong:
            failed.append(f"{fault.name}: {wrong}")
    print(f"faults injected: {injected}, jobs recovered: {recovered}, steps lost: {lost}, wrong: {len(failed)}")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
