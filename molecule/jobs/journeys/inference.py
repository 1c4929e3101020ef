"""Inference on two hosts: a small model of every task in every precision, and what cannot be measured beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml
from support.cluster import EPHEMERAL, Play, job_file, words
from support.journeys import check

NAME = "served"
RESULTS = EPHEMERAL / "results"
TASKS = {
    "distilbert-small": "text-classification",
    "bert-large-small": "question-answering",
    "vit-base-small": "image-classification",
    "llama-1b-small": "text-generation",
}
PRECISIONS = ("fp32", "bf16", "int8")
MISSING = "job:never-trained"
# Each host has one core.
TOO_MANY = 2


def job() -> Path:
    """Write the job, on two of the three hosts."""
    wanted = {
        "models": [*TASKS, MISSING],
        "tasks": {MISSING: "text-classification"},
        "precisions": list(PRECISIONS),
        "emulation": True,  # whatever CPU this is
        "channels_last": False,
        "batch_sizes": [1],
        "sequence_lengths": [16],
        "new_tokens": 4,
        "instances_per_node": [1, "cores", TOO_MANY],
        "seconds": 0.3,
        "warmup": 1,
        "agreement": 0.5,  # of random weights, predictions nearly tie
    }
    return job_file({"name": NAME, "kind": "inference", "hosts": ["node0", "node1"], "inference": wanted})


def infer(*more: str) -> Play:
    """Start the benchmark, or show it when it has ended."""
    return Play("infer", "-e", f"job={job()}", "-e", f"infer_results={RESULTS}", *more)


def content() -> dict[str, Any]:
    """Return the benchmark as it is now."""
    found: dict[str, Any] = json.loads((RESULTS / f"{NAME}-inference/inference.json").read_text(encoding="utf-8"))
    return found


def every_task_is_measured_in_every_precision() -> list[str]:
    """Measure on two hosts; a model that is missing and more instances than cores are refused, the others run."""
    output = infer("-e", "again=true").succeed()
    after = content()
    cells = {(cell["model"], cell["precision"], cell["instances_per_node"]): cell for cell in after["cells"]}
    for model, task in TASKS.items():
        for precision in PRECISIONS:
            cell = cells[model, precision, 1]
            check(cell["state"] == "measured", f"{model} in {precision} is {cell['state']}: {cell['reason']}")
            check((cell["task"], cell["hosts"], cell["instances"]) == (task, 2, 2), f"{cell}")
            speed, latency = cell["throughput"]["value"], cell["latency_ms"]
            check(0 < latency["p50"] <= latency["p90"] <= latency["p99"], f"{model} in {precision}: {latency}")
            # Two instances, one request after the other: their requests a second are 2 / the mean latency.
            share = speed * latency["mean"] / 2000
            check(0.5 < share < 2, f"{model} in {precision}: {speed} samples/s with a mean of {latency['mean']} ms")
            check((cell["generation"] is None) == (task != "text-generation"), f"generation: {cell['generation']}")
            check(cell["agreement"] or precision == "fp32", f"{model} in {precision} was not compared with fp32")
            check(cell["int8_route"] or precision != "int8", f"{model} in int8 does not name its route")
            refused = cells[model, precision, TOO_MANY]
            said = f"node0: ranks_per_node={TOO_MANY}, comm_cores=0 and reserved_cores=0 ask for at least"
            check(refused["state"] == "refused" and refused["reason"].startswith(said), f"{refused}")
    missing = cells[MISSING, "fp32", 1]
    check(missing["state"] == "refused" and "train.yml" in missing["reason"], f"{MISSING}: {missing['reason']}")
    check(len(after["trials"]) == 1, f"one core: 1 and cores are the same instances, {after['trials']}")
    for model in TASKS:
        file = RESULTS / f"{NAME}-inference/recommended-{model}.yml"
        setting = yaml.safe_load(file.read_text(encoding="utf-8"))
        best = after["recommended"][model]
        check({**setting, "source": None} == {**best["settings"], "source": None}, f"{file}: {setting} beside {best}")
        check(best["text"] in words(output), f"the recommended setting of {model} is not shown:\n{output[-4000:]}")
    before = [trial["job"] for trial in after["trials"]]
    infer().succeed()
    check([trial["job"] for trial in content()["trials"]] == before, "what had been measured was measured again")
    refusal = words(infer("-e", "p99_ms=5").fail())
    check("p99_ms differs: None, now 5.0" in refusal, f"another request was not refused:\n{refusal[-2000:]}")
    bf16, seconds = cells["distilbert-small", "bf16", 1], after["trials"][0]["seconds"]
    return [
        f"inference on two hosts of one core: {len(TASKS) * len(PRECISIONS)} cells in {seconds:.0f} s; "
        f"distilbert-small in bf16 {bf16['throughput']['value']:.0f} samples/s, p99 {bf16['latency_ms']['p99']:.2f} ms "
        f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs)"
    ]
