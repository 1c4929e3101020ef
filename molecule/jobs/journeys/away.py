"""The control node is lost while a job runs; who comes back finds the job, and fetches what it left."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from support.checkout import ROOT
from support.cluster import CONTAINERS, EPHEMERAL, HEAD, Play, directory, job_file, log, on, status, train, until
from support.journeys import check
from support.smoke_job import moved_aside, sums

NAME = "away"


def cut(play: Play, sockets: Path) -> int:
    """Take a play and its SSH connections away, as when its machine loses power. Returns how many connections."""
    play.kill(signal.SIGKILL)
    masters = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(sockets).encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                masters.append(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return len(masters)


def lines_of(output: str) -> list[str]:
    """Return the lines of a play's output without the quotes and commas around them."""
    return [line.strip(" \"',") for line in output.splitlines()]


def away() -> list[str]:
    """Lose the control node in mid-run, and come back."""
    # It runs until it is told to end, however long the plays take meanwhile.
    job = {"name": NAME, "script": str(ROOT / "molecule/shared/jobs/steps.py"), "kind": "torch", "ranks_per_node": 1}
    path = job_file({**job, "env": {"UNTIL": "finish"}})
    with tempfile.TemporaryDirectory() as sockets:
        play = train(path, "-e", f"ansible_control_path_dir={sockets}")
        check(until(lambda: "step 5 of" in log(NAME) or play.ended()), "it never came to step 5")
        check(not play.ended(), f"it ended:\n{play.output()[-3000:]}")
        connections = cut(play, Path(sockets))
    check(connections, "it had no connection to lose")

    # Who does not know that it runs starts it again.
    pid, earlier = status(NAME)["pid"], [moved_aside(NAME, host) for host in CONTAINERS]
    second, everything, one = train(path), Play("status"), Play("status", "-e", f"job={NAME}")
    seen, full, refused = everything.succeed(), one.succeed(), second.fail()
    check(any(line.split()[:2] == [NAME, "running"] for line in lines_of(seen)), f"not among all jobs:\n{seen[-2000:]}")
    for rank, host in enumerate(CONTAINERS):
        shown = any(line.split()[:2] == [host, str(rank)] for line in lines_of(full))
        check(shown, f"rank {rank} on {host} is not shown:\n{full[-2000:]}")
    check(f"Job {NAME} of root is running since" in refused, f"a second start was not refused:\n{refused[-2000:]}")
    now = status(NAME)
    check((now["state"], now["pid"]) == ("running", pid), f"the second start did something to the first: {now}")
    aside = [moved_aside(NAME, host) for host in CONTAINERS]
    check(aside == earlier, f"the second start moved the running job's directory: {earlier} {aside}")

    logs = Play("logs", "-e", f"job={NAME}")
    check(until(lambda: "step 5 of" in logs.output() or logs.ended()), f"logs.yml shows no step:\n{logs.output()}")
    check(not logs.ended(), f"logs.yml does not follow a job that runs:\n{logs.output()[-2000:]}")
    on(HEAD, f"touch {directory(NAME)}/finish", fails=False)
    shown_log = logs.succeed()
    returned = time.time()
    ended = float(on(HEAD, f"stat -c %Y {directory(NAME)}/results.json"))
    check(status(NAME)["state"] == "succeeded" and len(status(NAME)["attempts"]) == 1, f"it ended so: {status(NAME)}")
    missing = [line for line in log(NAME).splitlines() if line.strip() and line.strip() not in shown_log]
    check(not missing, f"logs.yml did not show {missing[:3]}")
    return [
        f"control node cut off ({connections} SSH connections): the job was found, a second start refused, all of its "
        f"{len(log(NAME).splitlines())} lines shown; logs.yml returned {returned - ended:.0f} s after its end"
    ]


def results_are_fetched() -> list[str]:
    """Fetch a job's results to where somebody keeps others under its name."""
    name = "on-3"
    shutil.rmtree(EPHEMERAL / "results", ignore_errors=True)
    target = EPHEMERAL / "results" / name
    target.mkdir(parents=True)
    (target / "paper.txt").write_text("the only copy", encoding="utf-8")
    Play("results", "-e", f"job={name}", "-e", f"job_results={target.parent}").succeed()
    papers = list(target.parent.glob(f"{name}.2*/paper.txt"))
    check(len(papers) == 1, f"where results were fetched to: {sorted(path.name for path in target.parent.iterdir())}")
    here = {f"./{file.relative_to(target)}": file for file in target.rglob("*") if file.is_file()}
    events = [name for name in here if name.startswith("./curves/")]
    made = {name for name in ("./report.html", "./stack.json", *events) if here.pop(name, None)}
    check(len(made) == 3, f"beside what was fetched there is {made}")
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in here.items()}
    there = sums(directory(name))
    check(digests == there, f"fetched otherwise than on the head: {set(digests.items()) ^ set(there.items())}")
    wanted = {"./output/model.safetensors", "./output/all_results.json", "./results.json", "./log"}
    check(wanted <= set(digests), f"not fetched: {wanted - set(digests)}")
    size = sum(file.stat().st_size for file in here.values()) / 1e6
    return [f"results fetched: {len(digests)} files, {size:.1f} MB, each with the SHA-256 that it has on the head"]
