"""Jobs wait for hosts on the head, in order of arrival and priority, also while their control node is away."""

from __future__ import annotations

import signal
from typing import Any

from support.checkout import ROOT
from support.cluster import HEAD, Play, directory, job_file, log, on, status, train, until, words
from support.journeys import check


def started(name: str, hosts: int, *options: str, **fields: Any) -> Play:
    """Start a job that runs until it is told to end; return once the head has it."""
    job = {"name": name, "script": str(ROOT / "molecule/shared/jobs/steps.py"), "kind": "torch", "ranks_per_node": 1}
    play = train(job_file({**job, "hosts": hosts, "env": {"UNTIL": "finish"}, **fields}), *options)
    check(until(lambda: status(name) or play.ended()), f"{name} was not started: {play.output()[-2000:]}")
    return play


def runs(name: str) -> bool:
    """Return whether ranks of a job make steps."""
    return "step 5 of" in log(name)


def end(name: str) -> None:
    """Tell a job to end."""
    on(HEAD, f"touch {directory(name)}/finish", fails=False)


def jobs_wait_for_hosts() -> list[str]:
    """Have four jobs want the same hosts, kill one that waits with its control node, and stop another one."""
    first = started("first", 3)
    check(until(lambda: runs("first")), "the first job never ran")
    refused = {"name": "refused", "script": str(ROOT / "molecule/shared/jobs/steps.py"), "kind": "torch"}
    refusal = words(train(job_file(refused)).fail())
    check("is locked by job first of root" in refusal, refusal[-2000:])
    plays = {"wide": started("wide", 3, wait=True)}
    plays["small"] = started("small", 1, wait=True)
    plays["urgent"] = started("urgent", 1, wait=True, priority=1)
    plays["killed"] = started("killed", 1, wait=True, priority=2)
    places = "place {} of 4 in the queue: "
    check(until(lambda: status("small").get("waiting", "").startswith(places.format(4))), f"{status('small')}")
    shown = words(Play("status").succeed())
    check("place 2 of 4 in the queue: node0 " in shown, shown[-3000:])
    check("job wide of root waits for node0" in shown, shown[-3000:])
    for play in (plays["wide"], plays["killed"]):
        play.kill(signal.SIGKILL)
    on(HEAD, f"kill -KILL {status('killed')['pid']}", fails=False)
    end("first")
    first.succeed()
    check(until(lambda: runs("urgent")), f"{status('urgent')}")
    order = {name: status(name).get("waiting", "") for name in ("wide", "small")}
    check("node0 is locked by job urgent" in order["wide"] and "job wide of root" in order["small"], f"{order}")
    end("urgent")
    plays["urgent"].succeed()
    check(until(lambda: runs("wide")), f"{status('wide')}")
    check(not runs("small"), f"{status('small')}")
    Play("stop", "-e", "job=small").succeed()
    plays["small"].fail()
    end("wide")
    check(until(lambda: status("wide")["state"] == "succeeded"), f"{status('wide')}")
    left = on(HEAD, f"ls -A {directory('')} | grep queue$ || true").split()
    lost = words(Play("status", "-e", "job=killed").succeed())
    check("lost" in lost and status("small")["state"] == "stopped", f"{lost[-2000:]} {status('small')}")
    check([name for name in left if ".killed." not in name] == [], f"left in the queue: {left}")
    return [
        "of jobs that waited for hosts, the urgent one ran first, then that for three hosts, whose control node was "
        "away; one that was killed and one that was stopped held up nobody"
    ]
