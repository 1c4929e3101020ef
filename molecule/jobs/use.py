"""Use jobs as a person does, and compare what comes of each use with what should.

Called by converge.yml, see tests/support/cluster.py. Prints a line of figures for each part, and at the end what was
wrong; exits with 1 when something was. Some parts only, by their functions' names: PARTS="twice reboot".
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from support.cluster import (
    CONTAINERS,
    EPHEMERAL,
    HEAD,
    SCENARIO,
    Play,
    directory,
    docker,
    job_file,
    kill_mpirun,
    log,
    on,
    orphans,
    read_json,
    status,
    until,
)
from support.hub import Hub
from support.stand_ins import EXAMPLE_TASK, METRIC, make_examples, make_wheel

ROOT = SCENARIO.parents[1]
SCRIPTS = ROOT / "jobs/scripts"
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text(encoding="utf-8"))
VERSION = CATALOGUE["__torch_stack_catalogue"]["native"]["packages"]["transformers"]
VALIDATION_PAIRS = 1000
# The smoke job learns its task whole within seconds, and comparing perfect results says little. With these it ends
# where both accuracy and loss still depend on every step.
HALF_LEARNT = {"learning_rate": 2.0e-4, "num_train_epochs": 1, "seed": 2}
# Samples of a step, over all ranks: the same on any number of hosts, so that each step is made of the same samples.
GLOBAL_BATCH = 48
# A job of some 30 s that can be interrupted: every step is written down, every tenth leaves a checkpoint.
SAVE_STEPS = 10
LONG = {
    "learning_rate": 2.0e-5,
    "gradient_accumulation_steps": 16,
    "max_steps": 100,
    "logging_steps": 1,
    "save_strategy": "steps",
    "save_steps": SAVE_STEPS,
    "save_total_limit": 2,
}
# Of a loss, between runs that should only differ in the order in which numbers are added.
ROUNDING = 0.01


class WrongError(Exception):
    """Something is not as it should be."""


def check(right: object, said: str) -> None:
    """Raise WrongError, which says so, unless it is right."""
    if not right:
        raise WrongError(said)


def smoke(name: str, ranks: int, hosts: int | list[str], args: dict[str, Any], **fields: Any) -> Path:
    """Write a job file: jobs/smoke.yml on `ranks` hosts, one rank on each, with other arguments and fields."""
    job = copy.deepcopy(yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8")))
    job.update(name=name, hosts=hosts, ranks_per_node=1, script=str(SCRIPTS / "train_text.py"), **fields)
    job["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    job["prepare"]["args"]["validation_pairs"] = VALIDATION_PAIRS
    job["args"].update(per_device_train_batch_size=GLOBAL_BATCH // ranks, **args)
    return job_file(job)


def train(path: Path, *words: str) -> Play:
    return Play("train", "-e", f"job={path}", *words)


def succeed(play: Play, seconds: float = 240) -> str:
    """Wait for a play that must succeed, and return what it printed."""
    output = play.wait(seconds)
    check(play.process.returncode == 0, f"{play.file.name} failed:\n{output[-3000:]}")
    return output


def metrics(job: str) -> dict[str, Any]:
    """Return what the job's script reported; numbers as they are written, not as they are read."""
    found: dict[str, Any] = json.loads(on(HEAD, f"cat {directory(job)}/output/all_results.json"), parse_float=str)
    return found


def loss(job: str) -> float:
    return float(metrics(job)["eval_loss"])


def step(job: str) -> int:
    return int(read_json(job, "progress.json").get("step", 0))


def come_to(wanted: int, job: str, play: Play) -> None:
    """Wait until the job has made so many steps."""
    there = until(lambda: (status(job).get("state") == "running" and step(job) >= wanted) or play.ended(), 180)
    check(there and not play.ended(), f"{job} never came to step {wanted}:\n{play.output()[-3000:]}")


def checkpoints(folder: str) -> dict[int, str]:
    """Return the whole checkpoints in a job directory on the head, the step of each and its name."""
    found = on(HEAD, f"cd {folder}/output && ls -d checkpoint-*/complete.json").split()
    return {int(path.split("/")[0].split("-")[1]): path.split("/")[0] for path in found}


def sums(folder: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder on the head, but for what was there before the job."""
    listed = on(HEAD, f"cd {folder} && find . -type f ! -path './data/*' ! -path './models/*' -exec sha256sum {{}} +")
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in listed.splitlines())}


def moved_aside(job: str, host: str = HEAD) -> list[str]:
    """Return the directories of the job's earlier runs, the oldest first."""
    return sorted(on(host, f"ls -d {directory(job)}.2* 2>/dev/null").split())


def lost_steps(job: str, died_at: int) -> int:
    """Return how many steps a job that got to `died_at` made again, after it went on from a checkpoint."""
    started = status(job)["attempts"][-1]["from"]
    check(started.startswith("checkpoint-"), f"{job} began anew, from {started}")
    lost = died_at - int(started.split("-")[1])
    check(0 <= lost <= SAVE_STEPS, f"{job} lost {lost} steps, with a checkpoint every {SAVE_STEPS}")
    return lost


def same_accuracy() -> list[str]:
    """Train the smoke job on 1, 2 and 3 hosts."""
    hosts: dict[str, int | list[str]] = {"on-1": 1, "on-2": ["node1", "node2"], "on-3": 3}
    plays: dict[str, Play] = {}
    for ranks, name in enumerate(hosts, 1):
        if ranks == 3:  # it takes the others' hosts
            for play in plays.values():
                succeed(play)
        plays[name] = train(smoke(name, ranks, hosts[name], HALF_LEARNT))
    succeed(plays["on-3"])
    found = {name: metrics(name) for name in hosts}
    worlds = [found[name]["world_size"] for name in hosts]
    check(worlds == [1, 2, 3], f"trained by {worlds} ranks")
    accuracies = [float(one["eval_accuracy"]) for one in found.values()]
    losses = [float(one["eval_loss"]) for one in found.values()]
    # What an accuracy measured on so many samples is known to: three standard errors of the difference of two.
    # (Laplace's estimate, which is not 0 where all are right.)
    likely = (sum(accuracies) * VALIDATION_PAIRS + 1) / (3 * VALIDATION_PAIRS + 2)
    noise = 3 * math.sqrt(2 * likely * (1 - likely) / VALIDATION_PAIRS)
    apart, relative = max(accuracies) - min(accuracies), max(losses) / min(losses) - 1
    told = (
        f"smoke job on 1, 2 and 3 hosts: accuracy {' '.join(f'{one:.3f}' for one in accuracies)} (at most {noise:.3f} "
        f"apart is noise of {VALIDATION_PAIRS} samples), evaluation loss {' '.join(f'{one:.5f}' for one in losses)}"
    )
    check(apart <= noise and relative <= ROUNDING, told)
    return [told]


def twice() -> list[str]:
    """Run a seeded job of one rank twice, where somebody else keeps results under that name."""
    name, paper = "twice", "the only copy"
    earlier = moved_aside(name)
    on(HEAD, f"mkdir -p {directory(name)}/output && echo '{paper}' > {directory(name)}/output/paper.txt")
    path = smoke(name, 1, ["node1"], HALF_LEARNT)
    succeed(train(path))
    first, before = metrics(name), sums(directory(name))
    succeed(train(path))
    second = metrics(name)
    check(first["train_loss"] == second["train_loss"], f"train_loss {first['train_loss']}, then {second['train_loss']}")
    aside = [folder for folder in moved_aside(name) if folder not in earlier]
    check(len(aside) == 2, f"moved aside: {aside}")
    check(on(HEAD, f"cat {aside[0]}/output/paper.txt").strip() == paper, f"{aside[0]} is not what it was")
    kept = sums(aside[1])
    check(before and kept == before, f"{aside[1]} is not what it was: {set(kept.items()) ^ set(before.items())}")
    return [
        f"seeded job of one rank, twice: train_loss {first['train_loss']} and {second['train_loss']}",
        f"earlier directories under its name: both moved aside, {len(kept)} files of the first run as they were",
    ]


def recover() -> list[str]:
    """Kill mpirun under transformers' Trainer."""
    name = "recover"
    play = train(smoke(name, 2, ["node0", "node2"], LONG, restarts=1))
    come_to(25, name, play)
    kill_mpirun(name)
    died_at, began = step(name), time.monotonic()
    check(until(lambda: len(status(name).get("attempts", [])) > 1, 60), "it was not started again")
    again = time.monotonic() - began
    succeed(play)
    left = orphans(name)
    check(not left, f"left behind: {left}")
    accuracy = float(metrics(name)["eval_accuracy"])
    return [
        f"Trainer job whose mpirun was killed: started again after {again:.0f} s, {lost_steps(name, died_at)} steps "
        f"lost, accuracy {accuracy:.3f}, evaluation loss {loss(name):.5f}"
    ]


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


def away() -> list[str]:
    """Lose the control machine in mid-run, and come back."""
    name, told = "away", []
    path = smoke(name, 3, 3, LONG)
    with tempfile.TemporaryDirectory() as sockets:
        play = train(path, "-e", f"ansible_control_path_dir={sockets}")
        come_to(10, name, play)
        connections = cut(play, Path(sockets))
    check(connections, "it had no connection to lose")
    cut_at = step(name)

    # Who does not know that it runs starts it again.
    pid, earlier = status(name)["pid"], [moved_aside(name, host) for host in CONTAINERS]
    second = train(path)
    everything, one = Play("status"), Play("status", "-e", f"job={name}")
    seen, full, refused = succeed(everything), succeed(one), second.wait(120)
    check(any(line.split()[:2] == [name, "running"] for line in words_of(seen)), f"not among all jobs:\n{seen[-2000:]}")
    for rank, host in enumerate(CONTAINERS):
        check(
            any(line.split()[:2] == [host, str(rank)] for line in words_of(full)),
            f"rank {rank} on {host} is not told:\n{full[-2000:]}",
        )
    check(f"Job {name} is running since" in refused, f"a second start was not refused:\n{refused[-2000:]}")
    check(second.process.returncode, "a second start was refused and yet a success")
    now = status(name)
    check((now["state"], now["pid"]) == ("running", pid), f"the second start did something to the first: {now}")
    aside = [moved_aside(name, host) for host in CONTAINERS]
    check(aside == earlier, f"the second start moved the running job's directory: {earlier} {aside}")
    found_at = step(name)

    logs = Play("logs", "-e", f"job={name}")
    shown = succeed(logs)
    returned = time.time()
    ended = float(on(HEAD, f"stat -c %Y {directory(name)}/results.json"))
    check(status(name)["state"] == "succeeded" and len(status(name)["attempts"]) == 1, f"it ended so: {status(name)}")
    missing = [line for line in log(name).splitlines() if line.strip() and line.strip() not in shown]
    check(not missing, f"logs.yml did not show {missing[:3]}")
    told.append(
        f"control machine cut off at step {cut_at} ({connections} SSH connections): found at step {found_at}, "
        f"a second start refused, ended at step {step(name)}; logs.yml returned {returned - ended:.0f} s later"
    )

    # Somebody keeps results under that name here.
    shutil.rmtree(EPHEMERAL / "results", ignore_errors=True)
    folder = EPHEMERAL / "results" / name
    folder.mkdir(parents=True)
    (folder / "paper.txt").write_text("the only copy", encoding="utf-8")
    succeed(Play("results", "-e", f"job={name}", "-e", f"job_results={folder.parent}"))
    papers = list(folder.parent.glob(f"{name}.2*/paper.txt"))
    check(len(papers) == 1, f"where results were fetched to: {sorted(path.name for path in folder.parent.iterdir())}")
    here = {f"./{file.relative_to(folder)}": file for file in folder.rglob("*") if file.is_file()}
    there = sums(directory(name))
    digests = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in here.items()}
    check(digests == there, f"fetched otherwise than on the head: {set(digests.items()) ^ set(there.items())}")
    wanted = {"./output/model.safetensors", "./output/all_results.json", "./results.json", "./log"}
    check(wanted <= set(digests), f"not fetched: {wanted - set(digests)}")
    size = sum(file.stat().st_size for file in here.values()) / 1e6
    told.append(f"results fetched: {len(digests)} files, {size:.1f} MB, each with the SHA-256 that it has on the head")
    return told


def unharmed() -> list[str]:
    """Compare the job that was started again with one that did the same on another number of hosts, undisturbed."""
    restarted, undisturbed = loss("recover"), loss("away")
    told = f"evaluation loss of the Trainer job that was killed {restarted:.5f}, of one that was not {undisturbed:.5f}"
    check(abs(restarted / undisturbed - 1) <= ROUNDING, told)
    return [told]


def words_of(output: str) -> list[str]:
    """Return the lines of a play's output without the quotes and commas around them."""
    return [line.strip(" \"',") for line in output.splitlines()]


def reboot() -> list[str]:
    """Reboot the head in mid-run, go on, stop, and go on with fewer hosts."""
    name, told = "reboot", []
    play = train(smoke(name, 3, 3, LONG))
    come_to(25, name, play)
    before = sums(directory(name) + "/output")
    began = time.monotonic()
    docker("restart", "--time", "30", CONTAINERS[HEAD])
    died_at = step(name)
    check(until(lambda: not orphans(name), 90), f"left behind: {orphans(name)}")
    quiet = time.monotonic() - began
    check(until(lambda: on(HEAD, "systemctl is-system-running").strip() in ("running", "degraded"), 60), "no boot")
    output = play.wait(120)
    shown = succeed(Play("status", "-e", f"job={name}"))
    check(f"job {name}: lost" in shown and "-e job_resume=true goes on from" in shown, shown[-2000:])
    # Its connection breaks, or it sees the end of the job before that.
    told_on = "status.yml tells how it stands" in output or "-e job_resume=true goes on from" in output
    check(play.process.returncode and told_on, f"train.yml says:\n{output[-2000:]}")

    play = train(smoke(name, 3, 3, LONG), "-e", "job_resume=true")
    come_to(died_at + 15, name, play)
    lost = lost_steps(name, died_at)
    told.append(
        f"head rebooted at step {died_at}: nothing left of it anywhere {quiet:.0f} s later, status.yml says lost; went "
        f"on from {status(name)['attempts'][-1]['from']}, {lost} steps lost"
    )
    aside = moved_aside(name)[-1]
    kept = sums(aside + "/output")
    check(before.items() <= kept.items(), f"{aside} is not what it was: {set(before.items()) - set(kept.items())}")

    began = time.monotonic()
    stopped = succeed(Play("stop", "-e", f"job={name}"))
    left, seconds = orphans(name), time.monotonic() - began
    stopped_at = step(name)
    check(not left, f"stop.yml left behind: {left}")
    check("was stopped" in stopped and status(name)["state"] == "stopped", f"stop.yml says:\n{stopped[-2000:]}")
    output = play.wait(60)
    check("it was stopped on request" in output, f"train.yml says:\n{output[-2000:]}")
    told.append(f"stopped at step {stopped_at}: ended on every host within {seconds:.0f} s, orphans 0")

    output = succeed(train(smoke(name, 3, 2, LONG), "-e", "job_resume=true"))
    lost = lost_steps(name, stopped_at)
    notes = " ".join(status(name)["notes"])
    check("2 instead of 3 ranks" in notes and "2/3" in notes and "2 instead of 3 ranks" in output, f"notes: {notes}")
    told.append(f"checkpoint of 3 ranks resumed by 2: {lost} steps lost, and said: {notes}")
    return told


def overhead() -> list[str]:
    """Measure what the playbook adds to the start of a job with everything in place."""
    name = "stamped"
    model = EPHEMERAL / "model"
    model.mkdir(exist_ok=True)
    (model / "weights").write_bytes(bytes(10_000_000))
    path = job_file(
        {
            "name": name,
            "script": str(SCENARIO / "jobs/stamp.py"),
            "trainer": False,
            "ranks_per_node": 1,
            "models": {"some": {"directory": str(model)}},
        }
    )
    succeed(train(path))  # so that everything is in place
    play = train(path)
    succeed(play)
    by_play = first_main(name) - play.began
    began = time.time()
    by_hand_output = on(HEAD, f"cd {directory(name)} && rm -f main-* && bash launch.sh 2>&1; echo exit code $?")
    check("exit code 0" in by_hand_output, f"launch.sh by hand says:\n{by_hand_output[-2000:]}")
    by_hand = first_main(name) - began
    return [
        f"from the command to the first rank's main, 3 hosts: train.yml {by_play:.1f} s, bash launch.sh {by_hand:.1f} "
        f"s, the playbook adds {by_play - by_hand:.1f} s (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs)"
    ]


def first_main(job: str) -> float:
    """Return when the first rank of the last run reached its script."""
    times = [on(host, f"cat {directory(job)}/main-* 2>/dev/null").split() for host in CONTAINERS]
    check(all(times), f"a host has no rank that came to its script: {times}")
    return min(float(one) for host in times for one in host)


def example() -> list[str]:
    """Run a script of the transformers examples, with a model, data and a metric from a hub, without a way out."""
    folder = EPHEMERAL / "example"
    wheels, repository, hub_files = folder / "wheels", folder / "transformers", folder / "hub"
    shutil.rmtree(folder, ignore_errors=True)
    make_wheel(wheels, "glue-words", "1.2.0", requires=["glue-letters"])
    make_wheel(wheels, "glue-letters", "3.0.0")
    make_examples(repository, VERSION, "accelerate >= 0.12.0\nglue-words < 2\n")
    words = [sys.executable, str(SCRIPTS / "generated_pairs.py"), "--output_dir", str(hub_files)]
    subprocess.run(
        [*words, "--train_pairs", "96", "--validation_pairs", "48", "--seed", "1"], check=True, capture_output=True
    )
    (hub_files / "same").mkdir()
    (hub_files / "same/same.py").write_text(METRIC)
    (hub_files / "pairs").mkdir()
    for name in ("train.csv", "validation.csv"):
        (hub_files / name).rename(hub_files / "pairs" / name)

    given = {"torch_stack_examples": "git", "torch_stack_examples_from": f"file://{repository}"}
    site = ("--tags", "always,torch_stack", "-e", json.dumps(given))
    succeed(Play("site", *site))
    again = succeed(Play("site", *site))
    changed = [line for line in again.splitlines() if re.search(r"changed=[1-9]", line)]
    check(not changed, f"site.yml changes something again: {changed}")

    gateway = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}", CONTAINERS[HEAD])
    with Hub(gateway.split()[0]) as hub:
        hub.publish("model", "stand-in/bert", hub_files / "model")
        hub.publish("dataset", "stand-in/pairs", hub_files / "pairs")
        hub.publish("space", "stand-in/same", hub_files / "same")
        path = job_file(
            {
                "name": "example",
                "script": f"transformers/examples/{EXAMPLE_TASK}/run_text.py",
                "models": {"bert": {"hub": "stand-in/bert"}},
                "data": {"pairs": {"hub": "stand-in/pairs", "at": "head"}},
                "metrics": {"same": {"hub": "stand-in/same"}},
                "args": {
                    "model_name_or_path": "models/bert",
                    "from_scratch": True,
                    "train_file": "datasets/pairs/train.csv",
                    "validation_file": "datasets/pairs/validation.csv",
                    "max_seq_length": 32,
                    "max_steps": 4,
                },
                "ranks_per_node": 1,
            }
        )
        away = {
            "data_cache_hub": hub.address,
            "torch_stack_index_url": "none",
            "torch_stack_index_urls": [],
            "torch_stack_find_links": [str(wheels)],
        }
        succeed(train(path, "-e", json.dumps(away)))
        fetched = len([request for request in hub.requests if request.method == "GET" and "/resolve/" in request.path])
        before = len(hub.requests)
        succeed(train(path, "-e", json.dumps(away)))
        more = [request for request in hub.requests[before:] if request.method == "GET" and "/resolve/" in request.path]
    check(not more, f"fetched again: {more}")
    text = log("example")
    for host in CONTAINERS:
        check(
            f"{host}: beside from the folder of the example, words 1.2.0" in text,
            f"{host} says not so:\n{text[-2000:]}",
        )
    check(text.count("same: 0.5") == len(CONTAINERS), f"the metric is not everywhere:\n{text[-2000:]}")
    return [
        f"example from git on {len(CONTAINERS)} hosts, with what it requires besides the stack: {fetched} files of a "
        "model, a data set (fetched by the head) and a metric from a hub (a stand-in), none again for a second run"
    ]


def demo() -> list[str]:
    """Run the demo job on all three hosts."""
    job = yaml.safe_load((ROOT / "jobs/demo.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "docstring_pairs.py")
    output = succeed(train(job_file(job)), 900)
    found = read_json("demo", "results.json")
    check((found["hosts"], found["ranks"]) == (3, 3), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
    check("accuracy, before and after" in output, f"no result is shown:\n{output[-2000:]}")
    measured = found["metrics"]
    return [
        f"demo job on 3 hosts: accuracy {measured['eval_before_accuracy']:.3f} -> {measured['eval_accuracy']:.3f}, "
        f"{measured['train_samples_per_second']:.1f} samples/s, {found['seconds']:.0f} s"
    ]


def attempt(part: Callable[[], list[str]]) -> str:
    """Do a part, print its figures, and return what is wrong; an empty string when nothing is."""
    began = time.monotonic()
    try:
        lines = part()
    except WrongError as error:
        return f"{part.__name__}: {error}"
    except Exception:  # the other parts are to be seen, too
        return f"{part.__name__}: {traceback.format_exc()}"
    print("\n".join(lines), f"[{part.__name__}: {time.monotonic() - began:.0f} s]", flush=True)
    return ""


# One after the other; what stands together runs at once, on different hosts.
PARTS = [[same_accuracy], [twice, recover], [away], [unharmed], [reboot], [overhead], [example], [demo]]


def main() -> int:
    wanted = os.environ.get("PARTS", "").split()
    wrong = []
    for together in PARTS:
        chosen = [part for part in together if not wanted or part.__name__ in wanted]
        with ThreadPoolExecutor(len(together)) as pool:
            failed = [said for said in pool.map(attempt, chosen) if said]
        if failed:  # its jobs may still hold the hosts
            on(HEAD, "pkill -f supervise.py")
            until(lambda: not on(HEAD, "pgrep -f supervise.py").strip(), 60)
        wrong += failed
    print(f"wrong: {len(wrong)}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
