"""Variants of the smoke job, and what such a job leaves on the head."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import HEAD, Play, attempts, directory, job_file, on, read_json, status, until
from support.journeys import check

SCRIPTS = ROOT / "jobs/scripts"
VALIDATION_PAIRS = 1000
# Samples of a step, over all ranks: the same on any number of hosts, so that each step is made of the same samples.
GLOBAL_BATCH = 48
# What its model learns at least.
LEARNT = 0.85


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
    found: dict[str, Any] = json.loads(on(HEAD, f"cat {directory(job)}/output/all_results.json"), parse_float=str)
    return found


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
