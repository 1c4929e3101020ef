"""Start jobs as a user does, make something go wrong in mid-run, and compare the outcome with the expected one.

Called by verify.yml, see tests/support/cluster.py. Exits with 1 when a job ended otherwise than it should, or anything
of it is left behind. Some only, by their names: JOURNEYS="a_rank_stalls a_host_dies".
"""

from __future__ import annotations

import shlex
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
    PREFIX,
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
    words,
)
from support.journeys import Journey, check, make

# A clear end must be there this many seconds after the fault; generous, because the hosts share few cores.
LIMIT = 120.0
# The step after which a fault is made, and the one at which steps.py makes its own.
UNDER_WAY = 25
ADDRESSES = addresses()
# Starts a job where there is little room.
NO_ROOM = ("-e", "preflight_job_free_gib=0")


@dataclass
class Fault:
    """One fault: the job, what is done in mid-run and undone afterwards, and the outcome.

    state, reason: how the job ends; part of the reason of a failed job, or of the first attempt of a restarted one.
    before: what is done before the job is started. when: what is waited for before the fault is made; by default, that
    the job is under way. meanwhile: what else is checked while it runs. shown: what train.yml must show, too.
    options: of train.yml. left_out: why `make test` leaves it out (`support.at_length`).
    """

    name: str
    state: str
    reason: str
    job: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    before: Callable[[str], Any] = lambda _job: None
    when: Callable[[str], Any] = lambda job: f"step {UNDER_WAY} of" in log(job)
    inject: Callable[[str], Any] = lambda _job: None
    meanwhile: Callable[[str], Any] = lambda _job: None
    mend: Callable[[str], Any] = lambda _job: None
    shown: str = ""
    options: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def restarted(self) -> bool:
        return bool(self.job.get("restarts"))


def small_jobs(host: str) -> None:
    """Give a host's job directories a small file system of their own."""
    on(host, f"mkdir -p {PREFIX}/jobs", fails=False)
    on(host, f"mount -t tmpfs -o size=60m,uid=1000 tmpfs {PREFIX}/jobs", user="root", fails=False)


def fill_jobs(host: str) -> None:
    on(host, f"dd if=/dev/zero of={PREFIX}/jobs/.fill bs=1M 2>&1")


def large_jobs(host: str) -> None:
    on(host, f"umount --lazy {PREFIX}/jobs", user="root", fails=False)


SFTP = "/usr/lib/openssh/sftp-server"
PYTHON = f"$(readlink -f {PREFIX}/env)/bin/python"


def no_sftp(host: str) -> None:
    on(host, f"mv {SFTP} {SFTP}.aside", user="root", fails=False)


def sftp(host: str) -> None:
    on(host, f"[ ! -e {SFTP}.aside ] || mv {SFTP}.aside {SFTP}", user="root", fails=False)


HANG = """#!/bin/sh
case "$*" in *' rank '*) exec sleep 1000 ;; esac
exec "$0.aside" "$@"
"""


def hang_python(host: str) -> None:
    """Have the interpreter of ranks hang before it runs anything, as on a network file system that is gone."""
    on(host, f"mv {PYTHON} {PYTHON}.aside; printf %s {shlex.quote(HANG)} > {PYTHON}; chmod +x {PYTHON}", fails=False)


def mend_python(host: str) -> None:
    on(host, f"[ ! -e {PYTHON}.aside ] || mv {PYTHON}.aside {PYTHON}", fails=False)


def is_launched(job: str) -> bool:
    return "launch_pid" in status(job)


def drip(job: str) -> None:
    """Have a client on the head that keeps the supervisor's port busy for as long as the job takes."""
    docker("cp", str(Path(__file__).with_name("drip.py")), f"{CONTAINERS[HEAD]}:/tmp/drip.py")
    command = f"exec {PYTHON} /tmp/drip.py {directory(job)}"
    docker("exec", "--detach", "--user", "train", CONTAINERS[HEAD], "sh", "-c", command)


def disturb(job: str) -> None:
    drip(job)
    fill_jobs("node1")


LOGIND = "/etc/systemd/logind.conf.d/kill.conf"


def end_at_logout(_job: str) -> None:
    """Have logind end what a user has started when the user logs out, and site.yml do what helps against it."""
    on(
        HEAD,
        f"mkdir -p {Path(LOGIND).parent} && printf '[Login]\nKillUserProcesses=yes\n' > {LOGIND}"
        " && systemctl restart systemd-logind",
        user="root",
        fails=False,
    )
    refused = train(file_of("fault-logout", Fault("", "", ""))).fail()
    check("loginctl enable-linger train" in words(refused), refused[-1500:])
    Play("site", "--tags", "host_tuning").succeed()


def log_out(_job: str) -> None:
    """End every login on the head, as when Ansible's connections have been idle."""
    on(HEAD, "loginctl list-sessions --no-legend | awk '{print $1}' | xargs loginctl terminate-session", user="root")


def stay_at_logout(_job: str) -> None:
    on(
        HEAD,
        f"rm -f {LOGIND}; loginctl disable-linger train; systemctl restart systemd-logind",
        user="root",
        fails=False,
    )


def unplug(host: str) -> None:
    docker("network", "disconnect", network(), CONTAINERS[host])


def revive(_job: str) -> None:
    docker("start", CONTAINERS["node2"])
    mend_python("node2")


def plug(host: str) -> None:
    docker("network", "connect", "--ip", ADDRESSES[host], "--alias", host, network(), CONTAINERS[host])


def second(job: str) -> None:
    """Start another job on hosts that this one has locked; then let this one end."""
    path = file_of("fault-second", Fault("a second job", "failed", "", job={"hosts": 2}))
    output = train(path, *NO_ROOM).fail()
    refused = f"is locked by job {job}" in output and not status("fault-second")
    check(refused, f"a second job on the same hosts was not refused: {output[-800:]}")
    on(HEAD, f"touch {directory(job)}/finish", fails=False)


FAULTS = [
    # What a job does not need to end for, all at once.
    Fault("a busy port and a worker whose disk is full", "succeeded", "", env={"UNTIL": "finish"}, options=NO_ROOM,
          before=lambda _job: small_jobs("node1"), inject=disturb, meanwhile=second,
          mend=lambda _job: large_jobs("node1")),
    Fault("a rank raises", "failed", "rank 1 on node1 failed: ValueError: the label of sample 1234 is missing",
          env={"FAULT": "raise"}, shown="ValueError: the label of sample 1234 is missing",
          left_out="what a rank says at its end is in test_faults.py, and a rank is killed in the scenario jobs"),
    Fault("a rank stalls", "failed", "rank 2 on node2 is here", job={"stall_seconds": 12}, env={"FAULT": "stall"},
          left_out="ranks that hang are in test_healthy_scripts.py"),
    Fault("mpirun is killed", "succeeded", "", job={"restarts": 1}, inject=kill_launcher,
          left_out="the scenario jobs kills it, and compares the result"),
    Fault("a rank runs out of memory", "succeeded", "out of memory", job={"restarts": 1}, env={"FAULT": "memory"},
          left_out="a rank is killed in the scenario jobs; what the kernel says of memory is in test_faults.py"),
    Fault("a host drops off the network", "succeeded", "node1", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: unplug("node1"), mend=lambda _job: plug("node1")),
    Fault("a host dies", "succeeded", "node2", job={"restarts": 1, "min_hosts": 2},
          inject=lambda _job: docker("kill", CONTAINERS["node2"]),
          mend=lambda _job: docker("start", CONTAINERS["node2"]),
          left_out="a host that drops off the network is lost as well, and the head's power is cut"),
    Fault("the disk of the head is full", "failed", "on node0 is full",
          left_out="the disk of a worker is full beside a busy port; what a script says of it is in test_faults.py",
          options=NO_ROOM, before=lambda _job: small_jobs(HEAD),
          inject=lambda _job: fill_jobs(HEAD),
          mend=lambda _job: large_jobs(HEAD)),
    Fault("the output cannot be fetched", "failed", "output/ could not be fetched from node1",
          job={"hosts": ["node1", "node2"]}, inject=lambda _job: no_sftp("node1"), mend=lambda _job: sftp("node1"),
          left_out="a full disk ends a job after its ranks, too"),
    Fault("a rank hangs before Python starts", "failed", "rank 2 on node2 has told nothing since it was started",
          job={"stall_seconds": 15}, before=lambda _job: hang_python("node2"), when=is_launched,
          mend=lambda _job: mend_python("node2"), left_out="a rank that stalls later is found by the same rule"),
    Fault("a host dies before its first heartbeat", "succeeded", "node2", job={"restarts": 1, "min_hosts": 2},
          before=lambda _job: hang_python("node2"), when=is_launched,
          inject=lambda _job: docker("kill", CONTAINERS["node2"]), mend=revive,
          left_out="a host that drops off the network under way is made"),
    Fault("logind ends processes at logout", "succeeded", "", before=end_at_logout, inject=log_out,
          mend=stay_at_logout, left_out="how a job leaves its login session is in the unit tests"),
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
    there = until(lambda: fault.when(name) or play.ended())
    check(there, "it never came to where the fault is made")
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
        fault.before(name)
        play = train(file_of(name, fault), *fault.options)
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


def two_starts() -> list[str]:
    """Start one job from two control nodes within a second."""
    job = file_of("fault-twice", Fault("", "", ""))
    plays = [train(job), train(job)]
    outputs = [play.wait() for play in plays]
    codes = sorted(play.process.returncode == 0 for play in plays)
    check(codes == [False, True], f"{codes}:\n{outputs[0][-2000:]}\n{outputs[1][-2000:]}")
    refused = next(output for play, output in zip(plays, outputs) if play.process.returncode)
    known = (
        "is starting the job",
        "was started a moment ago",
        "is running",
        "was replaced by another start",
        "has replaced its directory",
    )
    check(any(said in words(refused) for said in known), refused[-2000:])
    made = [line.split()[1] for line in log("fault-twice").splitlines() if line.startswith("step ")]
    check(made == [str(step) for step in range(1, 61)], f"steps {made}")
    check(status("fault-twice")["state"] == "succeeded", f"{status('fault-twice')}")
    return ["two starts of one job at once: one ran, 60 steps; the other was refused"]


def power_cut() -> list[str]:
    """Cut the head's power: nothing on it is told."""
    name = "fault-power"
    job = file_of(name, Fault("", "", ""))
    play = train(job)
    check(until(lambda: f"step {UNDER_WAY} of" in log(name) or play.ended()), "it never came under way")
    began = time.monotonic()
    docker("kill", CONTAINERS[HEAD])
    workers = [host for host in CONTAINERS if host != HEAD]
    mine = f"grep -lzx AMX_CLUSTER_JOB={directory(name)} /proc/[0-9]*/environ 2>/dev/null"
    ended = until(lambda: not any(on(host, mine, user="root") for host in workers), 150)
    quiet = time.monotonic() - began
    docker("start", CONTAINERS[HEAD])
    check(ended, "ranks on the other hosts did not end")
    play.fail()
    check(until(lambda: on(HEAD, "systemctl is-system-running").strip() in ("running", "degraded")), "no boot")
    shown = Play("status", "-e", f"job={name}").succeed()
    check(f"job {name}: lost" in shown, shown[-2000:])
    train(job, "-e", "job_resume=true").succeed()
    made = [int(line.split()[1]) for line in log(name).splitlines() if line.startswith("step ")]
    check((made[0], made[-1]) in ((21, 60), (31, 60)), f"steps {made[0]} to {made[-1]}")
    return [f"the head's power was cut: no rank anywhere {quiet:.0f} s later; lost, and resumed at step {made[0]}"]


def new_head() -> list[str]:
    """Replace the head by a host without the job, when another one has a checkpoint that was brought to it."""
    name = "fault-head"
    job = file_of(name, Fault("", "", ""))
    train(job).succeed()
    output = f"{directory(name)}/output"
    on("node1", f"mkdir -p {output}", fails=False)
    on(HEAD, f"scp -rqB {output}/checkpoint-30 node1:{output}/ && rm -rf {directory(name)}", fails=False)
    train(job, "-e", "job_resume=auto").succeed()
    made = [int(line.split()[1]) for line in log(name).splitlines() if line.startswith("step ")]
    check((made[0], made[-1]) == (31, 60), f"steps {made[0]} to {made[-1]}")
    return ["a head without the job: continued from the checkpoint that another host has"]


if __name__ == "__main__":
    faults = {journey(number, fault): fault.left_out for number, fault in enumerate(FAULTS)}
    left_out = {made: reason for made, reason in faults.items() if reason}
    left_out[two_starts] = "the locks of a start are in the unit tests"
    sys.exit(make([[made] for made in (*faults, two_starts, power_cut, new_head)], at_length=left_out))
