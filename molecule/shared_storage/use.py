"""What jobs do on hosts that share their directories, one after another. Called by verify.yml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    HEAD,
    PREFIX,
    Play,
    attempts,
    directory,
    job_file,
    kill_launcher,
    log,
    on,
    orphans,
    status,
    train,
    until,
)
from support.journeys import check, make


def file_of(name: str, **job: Any) -> Path:
    """Write the file of a job with a checkpoint every ten steps."""
    script = str(ROOT / "molecule/shared/jobs/steps.py")
    return job_file({"name": name, "script": script, "kind": "torch", "env": {"STEPS": 60}, **job})


def installed_once() -> list[str]:
    """Compare what hosts see."""
    seen = {
        host: on(host, f"readlink {PREFIX}/env; ls {PREFIX}/envs {PREFIX}/wheels", fails=False) for host in CONTAINERS
    }
    check(len(set(seen.values())) == 1, f"{seen}")
    keys = {host: on(host, "cat ~/.ssh/authorized_keys", fails=False).splitlines() for host in CONTAINERS}
    check(all(len(lines) == len(set(lines)) for lines in keys.values()), f"{keys}")
    return [f"one installation for {len(CONTAINERS)} hosts, in {seen[HEAD].splitlines()[0]}"]


def restarted() -> list[str]:
    """Kill the launcher in mid-run."""
    name = "shared"
    play = train(file_of(name, restarts=1))
    check(until(lambda: "step 25 of" in log(name) or play.ended()), "it never came under way")
    found = {host: on(host, f"cat {directory(name)}/host") for host in CONTAINERS}
    check(set(found.values()) == {f"{HEAD}\n"}, f"{found}: the job has more than one directory")
    kill_launcher(name)
    play.succeed()
    again = [attempt["from"] for attempt in attempts(name)]
    check(again in (["the beginning", "checkpoint-20"], ["the beginning", "checkpoint-30"]), f"{again}")
    check(not orphans(name), f"left behind: {orphans(name)}")
    locks = on(HEAD, f"ls {directory(name)}").split()
    check({f"lock.{host}.0" for host in CONTAINERS} <= set(locks), f"{locks}")
    return [f"mpirun killed: restarted from {again[1]}, which no host had to be sent"]


def stopped() -> list[str]:
    """Stop a job, while another one is refused."""
    name = "shared-stopped"
    play = train(file_of(name, env={"UNTIL": "finish"}))
    check(until(lambda: "step 5 of" in log(name) or play.ended()), "it never came under way")
    refused = train(file_of("shared-second")).fail()
    check(f"is locked by job {name}" in refused, refused[-1500:])
    Play("stop", "-e", f"job={name}").succeed()
    check(status(name)["state"] == "stopped", f"{status(name)}")
    check(not orphans(name), f"left behind: {orphans(name)}")
    play.wait()
    train(file_of("shared-second")).succeed()
    return ["a second job was refused while the first ran, which was stopped everywhere; then it ran"]


if __name__ == "__main__":
    sys.exit(make([[installed_once], [restarted], [stopped]]))
