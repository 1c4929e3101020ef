"""Variants of the smoke job, what such a job leaves on the head, and the loss of one of its ranks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    HEAD,
    Play,
    attempts,
    directory,
    job_file,
    on,
    orphans,
    read_json,
    status,
    train,
    until,
)
from support.journeys import check

SCRIPTS = ROOT / "jobs/scripts"
VALIDATION_PAIRS = 1000
# Samples of a step, over all ranks: the same on any number of hosts, so that each step is made of the same samples.
GLOBAL_BATCH = 48
# What its model learns at least.
LEARNT = 0.85
# Steps after which a job that loses a rank saves a checkpoint.
SAVE_STEPS = 5
# By a signal that is not the out-of-memory killer's: another scenario on the same kernel may be about that just then.
# The rank itself, and not its data loaders or the launcher: it is the one that the launcher started.
KILL_RANK = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ 2> /dev/null | grep -qx AMX_CLUSTER_JOB={directory} &&
        tr '\\0' '\\n' < $process/cmdline | grep -qx {program}; then
        kill -SEGV ${{process#/proc/}} && exit
    fi
done
exit 1
"""


def smoke(name: str, ranks: int, hosts: int | list[str], args: dict[str, Any], **fields: Any) -> Path:
    """Write a job file: jobs/smoke.yml on `ranks` hosts, one rank on each, with other arguments and fields."""
    job = copy.deepcopy(yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8")))
    job.update(name=name, hosts=hosts, ranks_per_node=1, script=str(SCRIPTS / "train_text.py"))
    job.update(expect={"eval_accuracy": LEARNT}, **fields)
    job["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    job["prepare"]["args"]["validation_pairs"] = VALIDATION_PAIRS
    job["args"].update(per_device_train_batch_size=GLOBAL_BATCH // ranks, **args)
    return job_file(job)


def metrics(job: str) -> dict[str, Any]:
    """Return what the job's script reported; numbers as they are written, not as they are read."""
    results: dict[str, Any] = json.loads(on(HEAD, f"cat {directory(job)}/output/all_results.json"), parse_float=str)
    return results


def step(job: str) -> int:
    """Return the last step that the Trainer has reported."""
    return int(read_json(job, "progress.json").get("step", 0))


def come_to(wanted: int, job: str, play: Play) -> None:
    """Wait until the job has made so many steps."""
    there = until(lambda: (status(job).get("state") == "running" and step(job) >= wanted) or play.ended())
    check(there and not play.ended(), f"{job} never came to step {wanted}:\n{play.output()[-3000:]}")


def continued_from(job: str) -> int:
    """Return the step of the checkpoint from which the job's last attempt continued."""
    source = attempts(job)[-1]["from"]
    check(source.startswith("checkpoint-"), f"{job} started anew, from {source}")
    return int(source.split("-")[1])


def sums(path: str) -> dict[str, str]:
    """Return the SHA-256 of each file in a directory on the head, but for its mark and what the job was given."""
    ours = "! -path './data/*' ! -path './models/*' ! -path ./.amx-cluster.json"
    listed = on(HEAD, f"cd {path} && find . -type f {ours} -exec sha256sum {{}} +")
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in listed.splitlines())}


def moved_aside(job: str, host: str = HEAD) -> list[str]:
    """Return the directories of the job's earlier runs, the oldest first."""
    return sorted(on(host, f"ls -d {directory(job)}.2* 2>/dev/null").split())


def smoke_and_kill(name: str, **fields: Any) -> dict[str, Any]:
    """Train the smoke job with other fields on three hosts, and kill a rank: see train_and_kill."""
    job = yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    del job["args"]["save_strategy"]
    job["args"]["num_train_epochs"] = 6  # so that it is still training when the rank is killed
    return train_and_kill({**job, "name": name, "expect": {"eval_accuracy": LEARNT}, **fields}, "train_text.py")


def train_and_kill(job: dict[str, Any], program: str) -> dict[str, Any]:
    """Train a job on three hosts, kill a rank after the first checkpoint; return the results and `source`.

    program: the script as the ranks' command line names it.
    """
    name = job["name"]
    play = train(job_file({**job, "restarts": 1, "checkpoints": {"steps": SAVE_STEPS}}))
    complete = f"{directory(name)}/output/checkpoint-{SAVE_STEPS}/complete.json"
    saved = until(lambda: (status(name).get("state") == "running" and on(HEAD, f"ls {complete} 2>&-")) or play.ended())
    check(saved and not play.ended(), f"it never came to its first checkpoint:\n{play.output()[-3000:]}")
    victim = list(CONTAINERS)[1]
    on(victim, KILL_RANK.format(directory=directory(name), program=program), user="root", fails=False)
    play.succeed()
    left = orphans(name)
    check(not left, f"left behind: {left}")
    reasons = [attempt["reason"] for attempt in attempts(name)]
    killed = reasons[0].startswith(f"rank 1 on {victim} was ended by signal 11 (SIGSEGV)")  # then the log's last line
    check(killed and reasons[1:] == [""], f"attempts: {reasons}")
    results = {**read_json(name, "results.json"), "source": continued_from(name)}
    check((results["hosts"], results["ranks"]) == (3, 3), f"hosts, ranks: {results['hosts']}, {results['ranks']}")
    return results


def continuation(results: dict[str, Any]) -> str:
    """Describe how a job went on that lost a rank."""
    before, after = (results["metrics"][name] for name in ("eval_before_accuracy", "eval_accuracy"))
    return f"continued from step {results['source']}, accuracy {before:.3f} -> {after:.3f}"
