"""What a user does on a cluster with Slurm, one after another. Called by verify.yml."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    HEAD,
    Play,
    attempts,
    directory,
    docker,
    job_file,
    on,
    read_json,
    status,
    train,
    until,
)
from support.journeys import check, make

NODES = ("s0", "s1", "s2")
CONTAINERS.update({node: CONTAINERS[HEAD].removesuffix(HEAD) + node for node in NODES})
# Seconds of a job that Slurm begins to end, after the 121 that it waits before it starts one again.
AGAIN = 300.0


def file_of(name: str, steps: int, **job: Any) -> Path:
    """Write the file of a job that trains a small model on a part of each node."""
    scripts = ROOT / "jobs/scripts"
    prepared = {"output_dir": "data", "train_pairs": 1200, "validation_pairs": 400, "seed": 1}
    args = {
        "model_name_or_path": "data/model",
        "from_scratch": True,
        "train_file": "data/train.csv",
        "validation_file": "data/validation.csv",
        "max_seq_length": 32,
        "per_device_train_batch_size": 16,
        "max_steps": steps,
        "logging_steps": 10,
        "ddp_find_unused_parameters": False,
    }
    fields: dict[str, Any] = {
        "name": name,
        "script": str(scripts / "train_text.py"),
        "prepare": {"script": str(scripts / "generated_pairs.py"), "args": prepared},
        "args": args,
        "checkpoints": {"steps": 50, "keep": 2},
        "hosts": 2,
        "slurm": {"cpus": 1},
    }
    return job_file({**fields, **job})


def slurm(command: str) -> str:
    """Return what a command of Slurm's prints on the login host."""
    return on(HEAD, command).strip()


def job_of(name: str) -> str:
    """Return the id of the Slurm job that runs a job, or is to run it."""
    return str(status(name).get("slurm", {}).get("id", ""))


def step(name: str) -> int:
    """Return the last step of a job."""
    return int(read_json(name, "progress.json").get("step", 0))


def is_under_way(name: str, attempt: int) -> bool:
    """Return whether an attempt of a job has saved a checkpoint."""
    return len(attempts(name)) == attempt and step(name) > 60 * attempt


def refused() -> list[str]:
    """Request what Slurm does not give."""
    requests: dict[str, dict[str, Any]] = {
        "slurm.partition": {"slurm": {"partition": "none"}},
        "hosts or slurm.cpus": {"hosts": 9},
        "slurm.time": {"slurm": {"partition": "short", "time": "1:00:00"}},
        "hosts or slurm.extra": {"slurm": {"extra": ["--mem=64G"]}},
    }
    messages = []
    for field, job in requests.items():
        output = " ".join(train(file_of("refused", 10, **job)).fail().split())
        match = re.search(rf"{field} in \S+: .*?(?= Origin:)", output)
        check(match, f"{field}: {output[-2000:]}")
        messages.append(match[0] if match else "")
    check("refused" not in on(HEAD, f"ls {directory('')}").split(), "a refused job has a directory")
    check(not slurm("squeue --noheader"), "a refused job is in the queue")
    return messages


def doctor() -> list[str]:
    """Check Slurm, and the shared directory on its nodes."""
    output = Play("doctor").succeed()
    check("no failures" in output, output[-3000:])
    return re.findall(r"\d+ checks on .*", output)


def beside_each_other() -> list[str]:
    """Train two jobs at a time on parts of the same nodes."""
    plays = [train(file_of(name, 60, hosts=3)) for name in ("first", "second")]
    for play in plays:
        play.succeed()
    cpus = {}
    for name in ("first", "second"):
        hosts = read_json(name, "plan.json")["hosts"]
        cpus[name] = {host["host"]: [rank["compute_cpus"] for rank in host["ranks"]] for host in hosts}
        check(status(name)["state"] == "succeeded", f"{status(name)}")
        check(read_json(name, "results.json")["ranks"] == 3, f"{cpus}")
    apart = all(cpus["first"][node] != cpus["second"][node] for node in NODES)
    check(apart, f"both jobs have the same CPUs: {cpus}")
    return [f"the CPUs of two jobs on the same nodes: {cpus}"]


def verified() -> list[str]:
    """Verify the plan on parts of nodes, and on whole ones with two ranks each."""
    part = Play("verify", "-e", f"job={file_of('verified', 10)}").succeed()
    whole = {"slurm": {}, "hosts": 3, "ranks_per_node": 2, "comm_cores": 0, "reserved_cores": 0}
    all_of_them = Play("verify", "-e", f"job={file_of('verified', 10, **whole)}").succeed()
    ranks = [len(re.findall(r"^ *(?:\S+: )?s\d .* yes", text, re.MULTILINE)) for text in (part, all_of_them)]
    check(ranks == [2, 6], f"{ranks}: {part[-1500:]} {all_of_them[-1500:]}")
    return ["2 ranks on parts of two nodes and 6 on three whole nodes run as planned"]


def printed() -> list[str]:
    """Print the script, and submit that of a job directory without Ansible."""
    file = file_of("first", 60, hosts=3)
    text = Play("plan", "-e", f"job={file}", "-e", "sbatch=true").succeed()
    check("#SBATCH --cpus-per-task=1" in text and "exec " in text, text[-2000:])
    submit = f"sbatch --parsable {directory('first')}/batch.sh"
    jobs = slurm(f"{submit} & {submit} & wait").split()
    check(until(lambda: not slurm(f"squeue --noheader --jobs={','.join(jobs)} 2>&1 | grep -v Invalid")), "no end")
    after, log = status("first"), on(HEAD, f"cat {directory('first')}/supervise.log")
    own = after["slurm"]["id"]
    check(after["state"] == "succeeded" and own in jobs, f"{after}: {log[-2000:]}")
    check(f"Slurm job {own} runs job first" in log and len(after["attempts"]) == 1, f"{after}: {log[-2000:]}")
    return [f"the script of the job directory ran again by sbatch alone, once: of jobs {jobs}, {own} ran it"]


def cancelled() -> list[str]:
    """Cancel a job that runs, and one that is pending."""
    play = train(file_of("cancelled", 100_000, hosts=3, slurm={"cpus": 2}))
    check(until(lambda: step("cancelled") > 60 or play.ended()), f"it never came under way: {play.output()[-2000:]}")
    pending = train(file_of("pending", 10, hosts=3, slurm={"cpus": 2}))
    check(until(lambda: "is pending: Resources" in pending.output() or pending.ended()), pending.output()[-2000:])
    Play("stop", "-e", "job=pending").succeed()
    pending.fail()
    check(status("pending")["reason"] == "it was stopped on request", f"{status('pending')}")
    slurm(f"scancel {job_of('cancelled')}")
    output = play.fail()
    after = status("cancelled")
    check(after["state"] == "stopped" and "was cancelled" in after["reason"], f"{after}: {output[-2000:]}")
    Play("results", "-e", "job=cancelled", "-e", f"amx_results={ROOT / '.cache/slurm_results'}").succeed()
    return [f"scancel: {after['reason']}, its results were fetched", "a pending job was stopped, with its reason"]


def out_of_time() -> list[str]:
    """Reach the time limit, and go on in another Slurm job."""
    play = train(file_of("timed", 100_000, restarts=1, slurm={"cpus": 1, "time": "2"}))
    check(until(lambda: step("timed") > 10 or play.ended()), play.output()[-2000:])
    first = job_of("timed")
    output = play.fail()
    made = attempts("timed")
    check(len(made) == 2 and made[1]["from"].startswith("checkpoint-"), f"{made}")
    check("all ranks have saved" in made[0]["reason"], f"{made}")
    check(job_of("timed") != first, f"{status('timed')}")
    check("allows no further start" in status("timed")["reason"], f"{status('timed')}: {output[-2000:]}")
    return [f"job {first}: {made[0]['reason']}; job {job_of('timed')} went on from {made[1]['from']}"]


def lost_node() -> list[str]:
    """Kill the node of the supervisor: Slurm queues the job again."""
    play = train(file_of("killed", 3000, restarts=1))
    check(until(lambda: step("killed") > 60 or play.ended()), play.output()[-2000:])
    job, node = job_of("killed"), attempts("killed")[0]["hosts"][0]
    docker("kill", CONTAINERS[node])
    check(until(lambda: len(attempts("killed")) == 2 or play.ended(), AGAIN), play.output()[-2000:])
    docker("start", CONTAINERS[node])
    play.succeed()
    made = attempts("killed")
    check(job_of("killed") == job and node not in made[1]["hosts"], f"{status('killed')}")
    check(made[1]["from"].startswith("checkpoint-"), f"{made}")
    return [f"{node} was killed: job {job} went on from {made[1]['from']} on {', '.join(made[1]['hosts'])}"]


def preempted() -> list[str]:
    """Preempt a job, until its restarts are used up."""
    play = train(file_of("preempted", 100_000, hosts=3, restarts=1, slurm={"cpus": 2}))
    notes = []
    for start in (1, 2):
        began = until(functools.partial(is_under_way, "preempted", start))
        check(began, f"start {start}: {status('preempted')}: {play.output()[-2000:]}")
        job = job_of("preempted")
        train(file_of(f"urgent{start}", 10, hosts=3, slurm={"cpus": 2, "partition": "urgent"})).succeed()
        notes.append(f"job {job} was preempted; status: {status('preempted').get('waiting')}")
    output, after = play.fail(), status("preempted")
    check(after["state"] == "failed" and "restarts: 1" in after["reason"], f"{after}: {output[-2000:]}")
    made = attempts("preempted")
    check(len(made) == 2 and made[1]["from"].startswith("checkpoint-"), f"{made}")
    return [*notes, f"it went on from {made[1]['from']}, then: {after['reason']}"]


def away() -> list[str]:
    """Take Slurm's controller away while a job runs."""
    play = train(file_of("away", 1500))
    check(until(lambda: step("away") > 10 or play.ended()), play.output()[-2000:])
    on(HEAD, "systemctl stop slurmctld", "root")
    refusal = train(file_of("refused", 10)).fail()
    check("Unable to contact slurm controller" in refusal, refusal[-2000:])
    on(HEAD, "systemctl start slurmctld", "root")
    play.succeed()
    return ["a job went on while slurmctld was away; a new one was refused by Slurm's words"]


if __name__ == "__main__":
    sys.exit(
        make(
            [
                [refused],
                [doctor],
                [beside_each_other],
                [verified],
                [printed],
                [cancelled],
                [out_of_time],
                [preempted],
                [away],
                [lost_node],
            ]
        )
    )
