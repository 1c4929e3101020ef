"""The jobs of published articles as they ship, with the scripts that they name, on three hosts without a way out.

The hub is a stand-in, with models of the same architecture and random weights, and datasets of as many rows
(support/published.py). The example scripts are transformers' own: AMX_TEST_EXAMPLES names a checkout of a version that
runs with the stack's transformers.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cluster import CONTAINERS, EPHEMERAL, HEAD, PREFIX, Play, docker, log, on, read_json, words
from support.hub import Hub
from support.journeys import check

VARIABLE = "AMX_TEST_EXAMPLES"
# How much of each job is run: samples of a rank's step, and what a host of one core can hold. Everything else is as it
# ships.
SMALL: dict[str, dict[str, Any]] = {
    "squad-distilbert": {"per_device_train_batch_size": 8, "max_steps": 5},
    "mrpc-bert": {"per_device_train_batch_size": 8, "max_steps": 5},
    "qqp-bert": {"per_device_train_batch_size": 8, "max_steps": 5},
    "squad-bert-large": {"per_device_train_batch_size": 2, "max_steps": 4, "optim": "adafactor"},
}
EVALUATED = 24
# Seconds in which a job comes to its end: a hundred thousand rows are tokenized on every host first.
LONG = 3600.0
PUBLISHED = {"squad-distilbert": "r7iz.metal-16xl", "mrpc-bert": "c6i.16xlarge", "qqp-bert": "c6i.16xlarge"}


def published_jobs_train() -> list[str]:
    """Train each for some steps on all hosts, and look at the time of an epoch that its report extrapolates."""
    examples = os.environ.get(VARIABLE, "")
    if not examples:
        return [f"skipped: published jobs train: set {VARIABLE} to a checkout of transformers, whose examples they run"]
    rows = os.environ.get("AMX_TEST_ROWS", "1")
    here, made = EPHEMERAL / "published", "/tmp/published"
    shutil.rmtree(here, ignore_errors=True)
    docker("cp", str(ROOT / "tests/support/published.py"), f"{CONTAINERS[HEAD]}:/tmp/published.py")
    on(HEAD, f"HF_HUB_OFFLINE=1 {PREFIX}/env/bin/python /tmp/published.py {made} --rows {rows}")
    docker("cp", f"{CONTAINERS[HEAD]}:{made}", str(here))
    on(HEAD, f"rm -r {made}")
    given = {"torch_stack_examples": "directory", "torch_stack_examples_from": str(Path(examples).resolve())}
    Play("site", "--tags", "always,torch_stack", "-e", json.dumps(given)).succeed()
    gateway = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}", CONTAINERS[HEAD])
    found = []
    with Hub(gateway.split()[0]) as hub:
        for kind in ("model", "dataset", "space"):
            for repository in sorted((here / kind).glob("*/*")):
                hub.publish(kind, str(repository.relative_to(here / kind)), repository)
        for name, args in SMALL.items():
            found.append(trained(name, args, hub.address))
    return found


def trained(name: str, args: dict[str, Any], hub: str) -> str:
    """Run a job that ships, and return what came of it."""
    override = {
        "hosts": len(CONTAINERS),
        "ranks_per_node": 1,
        "comm_cores": 0,
        "reserved_cores": 0,
        "measure": {"warmup_steps": 1},
        "args": {**args, "max_eval_samples": EVALUATED},
    }
    given = {"job": f"jobs/{name}.yml", "override": override, "data_cache_hub": hub}
    Play("train", "-e", json.dumps(given)).succeed(LONG)
    results, text = read_json(name, "results.json"), log(name)
    check(results["state"] == "succeeded", f"{name} has {results['state']}: {results['reason']}\n{text[-3000:]}")
    check(results["steps"] == args["max_steps"], f"{name} made {results['steps']} steps")
    check("eval_samples" in results["metrics"], f"{name} was not evaluated: {results['metrics']}")
    fetched = EPHEMERAL / "results"
    shutil.rmtree(fetched / name, ignore_errors=True)
    where = ["-e", f"job={name}", "-e", f"job_results={fetched}"]
    Play("results", *where).succeed()
    said = words(Play("report", "-e", json.dumps({"of": [str(fetched / name)]})).succeed())
    report = json.loads((fetched / name / "report/report.json").read_text(encoding="utf-8"))
    epochs = report["tables"]["epochs"]["rows"]
    own = [row for row in epochs if row["extrapolated"] is not None]
    check(len(own) == 1 and own[0]["epoch_seconds"] and own[0]["extrapolated"], f"{name}: {epochs}")
    machines = {row["machine"] for row in epochs}
    check(PUBLISHED.get(name, "") in machines | {""}, f"{name}: its published results are not beside it: {epochs}")
    check("(extrapolated)" in said, f"the report does not say that it extrapolates:\n{said}")
    speed = results["measured"]["samples_per_second"]
    return (
        f"{name}: {results['steps']} steps on {results['hosts']} hosts, {speed:.2f} samples/s, an epoch of "
        f"{results['training']['samples']} samples {own[0]['epoch_seconds'] / 3600:.1f} h (extrapolated)"
    )
