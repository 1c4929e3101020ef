"""What is measured on request: JOURNEYS="start_of_a_job demo"."""

from __future__ import annotations

import os
import time

import yaml
from journeys.smoke import SCRIPTS
from support.checkout import ROOT
from support.cluster import CONTAINERS, EPHEMERAL, HEAD, SCENARIO, directory, job_file, on, read_json, train
from support.journeys import check


def start_of_a_job() -> list[str]:
    """Measure what the playbook adds to the start of a job with everything in place."""
    name = "stamped"
    model = EPHEMERAL / "model"
    model.mkdir(exist_ok=True)
    (model / "weights").write_bytes(bytes(10_000_000))
    script = str(SCENARIO / "jobs/stamp.py")
    models = {"some": {"directory": str(model)}}
    path = job_file({"name": name, "script": script, "kind": "torch", "ranks_per_node": 1, "models": models})
    train(path).succeed()  # so that everything is in place
    play = train(path)
    play.succeed()
    by_play = first_main(name) - play.began
    began = time.time()
    output = on(HEAD, f"cd {directory(name)} && rm -f main-* && bash launch.sh 2>&1; echo exit code $?")
    check("exit code 0" in output, f"launch.sh says:\n{output[-2000:]}")
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


def demo() -> list[str]:
    """Run the demo job on all three hosts."""
    job = yaml.safe_load((ROOT / "jobs/demo.yml").read_text(encoding="utf-8"))
    job["script"] = str(SCRIPTS / "train_text.py")
    job["prepare"]["script"] = str(SCRIPTS / "docstring_pairs.py")
    output = train(job_file(job)).succeed()
    found = read_json("demo", "results.json")
    check((found["hosts"], found["ranks"]) == (3, 3), f"hosts, ranks: {found['hosts']}, {found['ranks']}")
    check("accuracy, before and after" in output, f"no result is shown:\n{output[-2000:]}")
    measured = found["metrics"]
    return [
        f"demo job on 3 hosts: accuracy {measured['eval_before_accuracy']:.3f} -> {measured['eval_accuracy']:.3f}, "
        f"{measured['train_samples_per_second']:.1f} samples/s, {found['seconds']:.0f} s"
    ]
