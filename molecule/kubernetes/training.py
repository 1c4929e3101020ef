"""From a job file to results: two pods train together, one loses a rank and goes on, one is left, found and stopped."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import jobs, settings, start, volume
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from pods import IS_CURRENT, NAMESPACE, NODES, STORAGE, admin, directory, left, play, pods, read, smoke, user
from pods import settings as pods_settings
from support.cluster import EPHEMERAL, Play, until, words
from support.journeys import check
from support.kubernetes_node import node

RESULTS = EPHEMERAL / "results"
TOGETHER, KILLED, STOPPED, TWICE = "together", "killed", "stopped", "twice"
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


def connected() -> Api:
    """Return the connection of this user."""
    return Api.connect(str(node.USER), node.CONTEXT, NAMESPACE)


def in_pod(pod: str, script: str) -> str:
    """Run a shell script in a pod as this user does, and return what it printed."""
    [container] = [one["spec"]["containers"][0]["name"] for one in pods_named(pod)]
    code, printed, said = connected().exec(pod, container, ["sh", "-c", script], 60)
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
    check(sorted(places.values()) == sorted(NODES), f"pods are on {places}")
    classes = {one["status"]["qosClass"] for one in pods(TOGETHER)}
    check(classes == {"Guaranteed"}, f"quality of service: {classes}")
    cores = {name: in_pod(name, "grep Cpus_allowed_list /proc/1/status").split()[-1] for name in places}
    check(IS_CURRENT or len(set(cores.values())) == 2, f"pods share a core: {cores}")
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


def a_start_that_fails_loses_nothing() -> list[str]:
    """The job is started again with an image that no node has: its previous run is shown, and can be fetched."""
    before = directory(TOGETHER)
    again = words(play("train", "-e", f"job={smoke(TOGETHER)}", image="amx-cluster-pod:none").fail())
    check("does not have image amx-cluster-pod:none" in again, f"{again[-3000:]}")
    check("Its previous run is kept" in again and "Could not be removed" not in again, f"{again[-3000:]}")
    check(left(TOGETHER) == [f"ConfigMap {TOGETHER}"], f"left: {left(TOGETHER)}")
    shown = words(play("status", "-e", f"job={TOGETHER}").succeed())
    check("succeeded" in shown and before.name in shown, f"{shown[-3000:]}")
    return [f"a start with another image failed, and status.yml shows the previous run, {before.name}"]


def two_users_fetch_results_at_the_same_time() -> list[str]:
    """Each has a reader of its own: every file is there with the same content, and nothing is left of the readers."""
    shutil.rmtree(RESULTS, ignore_errors=True)  # of a previous run of the scenario
    own = RESULTS / "0" / f"{TOGETHER}.tar"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("of the user")
    places = [RESULTS / str(number) for number in range(2)]
    fetches = [play("results", "-e", f"job={TOGETHER}", "-e", f"job_results={place}") for place in places]
    listed = play("status", "-e", "volume=true")
    there = sums(directory(TOGETHER) / "output")
    for place, fetch in zip(places, fetches):
        fetch.succeed()
        here = sums(place / TOGETHER / "output")
        check(there and there == here, f"on the volume: {sorted(there)}, fetched: {sorted(here)}")
    check(TOGETHER in words(listed.succeed()), f"{listed.output()[-3000:]}")
    check(own.read_text() == "of the user", f"{own} was overwritten")
    check(sorted(path.name for path in own.parent.iterdir()) == [TOGETHER, own.name], "more than results is there")
    check(until(lambda: not readers(), 180), f"readers: {readers()}")
    hidden = [path.name for path in (STORAGE / "jobs").glob(".*")]
    check(not hidden, f"on the volume: {hidden}")
    return [f"{len(there)} files of the output were fetched twice at once, with the sums of those on the volume"]


def readers() -> list[str]:
    found = user().list("Pod", "v1", NAMESPACE, "amx.cluster/role=reader")
    return [str(one["metadata"]["name"]) for one in found]


def the_reader_of_an_interrupted_play_is_removed() -> list[str]:
    """It ends by itself, removes what it has packed, and is deleted by the next play."""
    api = connected()
    made = volume.pod(settings.read(pods_settings()), "interrupted-reader-1", TOGETHER)
    made["spec"]["activeDeadlineSeconds"] = 20
    api.create(made)
    reader = volume.wait_for(api, made, print, 120)
    packed = Path(jobs.ask(api, reader, ["pack", directory(TOGETHER).name])["path"])
    file = STORAGE / packed.relative_to(interface.STORAGE)
    check(file.exists(), f"{file} is not there")
    check(until(lambda: not file.exists(), 90), f"{file} was not removed")
    check(until(lambda: phase("interrupted-reader-1") == "Failed", 60), f"{phase('interrupted-reader-1')}")
    play("status", "-e", "volume=true").succeed()
    check(until(lambda: not readers(), 180), f"readers: {readers()}")
    return ["a reader whose play was interrupted ended, removed its file, and was deleted by the next play"]


def phase(name: str) -> str:
    return "".join(str(one["status"]["phase"]) for one in pods_named(name))


def one_of_several_starts_is_first() -> list[str]:
    """The API server takes one ConfigMap of several written at the same time, with and without a previous run."""
    api = connected()
    about = {"name": "claimed", "namespace": NAMESPACE}
    version = ""
    for previous in (False, True):

        def begin(number: int, version: str = version) -> str:
            notes = {"amx.cluster/user": f"user {number}"}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**about, "annotations": notes}}
            try:
                written = start.write(api, "claimed", {**made, "data": {"number": str(number)}}, version)
            except ValueError as error:
                return str(error)
            return f"version {written['metadata']['resourceVersion']}"

        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(begin, range(4)))
        first = [one for one in said if one.startswith("version ")]
        refused = [one for one in said if "at the same time" in one]
        check((len(first), len(refused)) == (1, 3), f"previous run: {previous}: {said}")
        version = first[0].partition(" ")[2]
    admin().delete("ConfigMap", "v1", NAMESPACE, "claimed")
    return ["of 4 starts at the same time one was first, without a previous run and with one"]


def a_job_is_started_twice_at_the_same_time() -> list[str]:
    """One start trains, the other one is refused and changes nothing."""
    job = smoke(TWICE, {"max_steps": 5})
    plays = [play("train", "-e", f"job={job}") for _one in range(2)]
    outputs = [words(one.wait()) for one in plays]
    codes = sorted(one.process.returncode for one in plays)
    check(codes == [0, 2], f"exit codes {codes}:\n" + "\n---\n".join(output[-3000:] for output in outputs))
    [refused] = [output for one, output in zip(plays, outputs) if one.process.returncode]
    said = re.search(
        rf"job {TWICE} (was started by \S+ at the same time|is being started|prepares its data|is running)", refused
    )
    check(said and "What this start had created" not in refused, f"{refused[-3000:]}")
    starts_of_it = [path.name for path in (STORAGE / "jobs").glob(f"{TWICE}-*")]
    check(len(starts_of_it) == 1, f"on the volume: {starts_of_it}")
    return [f"of two starts at the same time one trained; the other one: {said[0] if said else ''}"]


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
    shown = words(play("stop", "-e", f"job={STOPPED}", "--check").succeed())
    check(f"job {STOPPED} would be stopped" in shown and f"job {STOPPED} was stopped" not in shown, f"{shown[-3000:]}")
    check(len(pods(STOPPED)) == 2, "stop.yml --check ended the job")
    shown = words(play("stop", "-e", f"job={STOPPED}").succeed())
    check(f"job {STOPPED} was stopped" in shown, f"{shown[-3000:]}")
    check(until(lambda: not pods(STOPPED), 120), f"pods are left: {left(STOPPED)}")
    state = read(STOPPED, "status.json")["state"]
    check(state == "stopped", f"state: {state}")
    return [f"job {STOPPED} went on after Ctrl-C, was refused a second time, and stopped"]


JOURNEYS = (
    two_pods_train_together,
    status_and_log_show_the_job,
    a_start_that_fails_loses_nothing,
    two_users_fetch_results_at_the_same_time,
    the_reader_of_an_interrupted_play_is_removed,
    one_of_several_starts_is_first,
    a_job_is_started_twice_at_the_same_time,
    a_rank_is_killed,
    a_job_is_left_found_and_stopped,
)
