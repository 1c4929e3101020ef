"""From a job file to results: two pods train together, one loses a rank and goes on, one is left, found and stopped."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.api import Api
from pods import NAMESPACE, directory, left, play, pods, read, smoke, user
from support.cluster import EPHEMERAL, Play, until, words
from support.journeys import check
from support.kubernetes_node import node

RESULTS = EPHEMERAL / "results"
TOGETHER, KILLED, STOPPED = "together", "killed", "stopped"
SAVE_STEPS = 5
# The rank itself in a pod, not torchrun and not its data loaders: it has the script as an argument.
KILL_RANK = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/cmdline 2> /dev/null | grep -qx train_text.py; then
        kill -SEGV ${process#/proc/} && exit
    fi
done
exit 1
"""


def in_pod(pod: str, script: str) -> str:
    """Run a shell script in a pod as this user does, and return what it printed."""
    [container] = [one["spec"]["containers"][0]["name"] for one in pods_named(pod)]
    api = Api.connect(str(node.USER), node.CONTEXT)
    code, printed, said = api.exec(NAMESPACE, pod, container, ["sh", "-c", script], 60)
    check(code == 0, f"in pod {pod}: exit code {code}: {said}")
    return str(printed)


def pods_named(name: str) -> list[dict[str, Any]]:
    return [one for one in user().list("Pod", "v1", NAMESPACE) if one["metadata"]["name"] == name]


def running(job: str, play: Play) -> bool:
    """Wait until a job has two pods that run; return whether it has come to that before the play ended."""

    def both() -> bool:
        return [one["status"]["phase"] for one in pods(job)] == ["Running"] * 2

    return until(lambda: both() or play.ended()) and not play.ended()


def two_pods_train_together() -> list[str]:
    """The smoke job on two nodes: a core of its own for each pod, progress while it trains, its expectations met."""
    started = play("train", "-e", f"job={smoke(TOGETHER, expect={'eval_accuracy': 0.85})}")
    check(running(TOGETHER, started), f"its pods never ran:\n{started.output()[-4000:]}")
    places = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods(TOGETHER)}
    check(sorted(places.values()) == ["node-a", "node-b"], f"pods are on {places}")
    classes = {one["status"]["qosClass"] for one in pods(TOGETHER)}
    check(classes == {"Guaranteed"}, f"quality of service: {classes}")
    cores = {name: in_pod(name, "grep Cpus_allowed_list /proc/1/status").split()[-1] for name in places}
    check(len(set(cores.values())) == 2, f"pods share a core: {cores}")
    output = started.succeed()
    steps = re.findall(r"step (\d+)/(\d+)", output)
    check(steps, f"no progress was shown:\n{output[-4000:]}")
    found = read(TOGETHER, "results.json")
    check((found["state"], found["ranks"]) == ("succeeded", 2), f"{found}")
    accuracy = found["metrics"]["eval_accuracy"]
    return [f"2 pods on {places}, CPUs {cores}: accuracy {accuracy:.3f}, progress {'/'.join(steps[-1])}"]


def status_and_log_show_the_job() -> list[str]:
    """status.yml says that it has succeeded, logs.yml shows what its ranks printed."""
    shown = words(play("status", "-e", f"job={TOGETHER}").succeed())
    check("succeeded" in shown, f"{shown[-3000:]}")
    log = play("logs", "-e", f"job={TOGETHER}").succeed()
    check("eval_accuracy" in log, f"{log[-3000:]}")
    return ["status.yml and logs.yml show the job that has ended"]


def results_are_fetched_and_verified() -> list[str]:
    """results.yml fetches what is on the volume: every file is there with the same content."""
    play("results", "-e", f"job={TOGETHER}", "-e", f"kubernetes_results={RESULTS}").succeed()
    there, here = sums(directory(TOGETHER) / "output"), sums(RESULTS / TOGETHER / "output")
    check(there and there == here, f"on the volume: {sorted(there)}, fetched: {sorted(here)}")
    return [f"{len(here)} files of the output were fetched, with the sums of those on the volume"]


def sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def a_rank_is_killed() -> list[str]:
    """The rank of the second pod is killed after the first checkpoint: the job goes on from its last one."""
    job = smoke(KILLED, {"save_strategy": "steps"}, restarts=1, checkpoints={"steps": SAVE_STEPS})
    content = json.loads(job.read_text())
    del content["args"]["save_strategy"]
    job.write_text(json.dumps(content))
    started = play("train", "-e", f"job={job}")
    check(running(KILLED, started), f"its pods never ran:\n{started.output()[-4000:]}")

    def saved() -> bool:
        return (directory(KILLED) / f"output/checkpoint-{SAVE_STEPS}/complete.json").exists()

    check(until(lambda: saved() or started.ended()) and not started.ended(), f"{started.output()[-4000:]}")
    victim = pods(KILLED)[1]["metadata"]["name"]
    in_pod(victim, KILL_RANK)
    started.succeed()
    attempts = read(KILLED, "status.json")["attempts"]
    check(len(attempts) == 2, f"attempts: {attempts}")
    source = attempts[-1]["from"]
    check(source, f"it did not go on from a checkpoint: {attempts}")
    return [f"rank of {victim} was killed: {attempts[0]['reason']}; went on from {source}"]


def a_job_is_left_found_and_stopped() -> list[str]:
    """Ctrl-C leaves the job running; it is refused while it runs; stop.yml ends it and removes its objects."""
    job = smoke(STOPPED, {"num_train_epochs": 500})
    started = play("train", "-e", f"job={job}")
    check(running(STOPPED, started), f"its pods never ran:\n{started.output()[-4000:]}")
    check(until(lambda: "step" in started.output() or started.ended()), f"no progress: {started.output()[-3000:]}")
    started.kill(signal.SIGINT)
    check(len(pods(STOPPED)) == 2, "Ctrl-C ended the job")
    shown = words(play("status").succeed())
    check(STOPPED in shown and "running" in shown, f"{shown[-3000:]}")
    again = words(play("train", "-e", f"job={job}").fail())
    check(f"job {STOPPED} is running since" in again, f"{again[-3000:]}")
    play("stop", "-e", f"job={STOPPED}").succeed()
    check(until(lambda: not pods(STOPPED), 120), f"pods are left: {left(STOPPED)}")
    state = read(STOPPED, "status.json")["state"]
    check(state == "stopped", f"state: {state}")
    return [f"job {STOPPED} went on after Ctrl-C, was refused a second time, and stopped"]


JOURNEYS = (
    two_pods_train_together,
    status_and_log_show_the_job,
    results_are_fetched_and_verified,
    a_rank_is_killed,
    a_job_is_left_found_and_stopped,
)
