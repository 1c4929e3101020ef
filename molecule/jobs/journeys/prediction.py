"""Batch prediction with a trained model on two hosts: an instance is killed, a user interrupts it, a row is broken."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path
from typing import Any

from support.cluster import CONTAINERS, EPHEMERAL, HEAD, Play, directory, on, status, train, until, words
from support.journeys import check
from support.smoke_job import smoke

MODEL = "predicted"
NAME = f"{MODEL}-predict"
RESULTS = EPHEMERAL / "results"
HOSTS = 2
ROWS = 12000
# Lines of the data, the header's is 1: one with a field too few, and one whose quote is not closed.
BROKEN = {501: "ends-too-early", 2001: '"a quote that nobody closes'}
KILL_INSTANCE = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ 2> /dev/null | grep -qx AMX_CLUSTER_JOB={directory} &&
        tr '\\0' '\\n' < $process/cmdline | grep -qx amx_cluster.inference.run_prediction; then
        kill -SEGV ${{process#/proc/}} && exit
    fi
done
exit 1
"""


def data() -> tuple[Path, list[dict[str, str]]]:
    """Write the data, pairs of the job's validation with a number and the label; return the file and its good rows."""
    pairs = list(csv.DictReader(io.StringIO(on(HEAD, f"cat {directory(MODEL)}/data/validation.csv"))))
    good = []
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("number", "sentence1", "sentence2", "kind"))
    for number in range(ROWS):
        if number + 2 in BROKEN:
            text.write(BROKEN[number + 2] + "\n")
            continue
        pair = pairs[number % len(pairs)]
        good.append({"number": str(number), **pair})
        writer.writerow((number, pair["sentence1"], pair["sentence2"], pair["label"]))
    path = EPHEMERAL / "rows.csv"
    path.write_text(text.getvalue(), encoding="utf-8")
    return path, good


def predict(path: Path, *more: str) -> Play:
    """Start the prediction, or go on with it."""
    override = {"hosts": HOSTS, "ranks_per_node": 1}
    options = {"job": MODEL, "data": str(path), "predict_results": str(RESULTS), "override": override}
    options["setting"] = {"batch_size": 1}  # which takes long enough to be interrupted
    return Play("predict", "-e", json.dumps(options), *more)


def chunks(host: str) -> int:
    """Return how many chunks of the job a host has."""
    return int(on(host, f"ls {directory(NAME)}/output/predictions 2>/dev/null | grep -c '^chunk-'") or 0)


def prediction() -> dict[str, Any]:
    """Return prediction.json on the control node."""
    found: dict[str, Any] = json.loads((RESULTS / NAME / "prediction.json").read_text(encoding="utf-8"))
    return found


def every_row_once(good: list[dict[str, str]]) -> float:
    """Compare the output with the data; return the share of rows whose label is right."""
    with (RESULTS / NAME / "predictions.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    numbers = [row["number"] for row in rows]
    check(numbers == [row["number"] for row in good], f"{len(numbers)} rows, or not in order: {numbers[:20]}")
    check(
        all(row["sentence1"] == was["sentence1"] for row, was in zip(rows, good)), "the rows are not those of the data"
    )
    rejected = (RESULTS / NAME / "predictions.rejected.jsonl").read_text(encoding="utf-8").splitlines()
    lines = {entry["line"]: entry["row"] for entry in map(json.loads, rejected)}
    check(lines == BROKEN, f"rejected: {rejected}")
    right = [row["predicted_label"] == was["label"] for row, was in zip(rows, good)]
    return sum(right) / len(right)


def an_instance_is_killed() -> list[str]:
    """Train the smoke job, predict on two hosts, and kill an instance on the second one."""
    train(smoke(MODEL, 2, 2, {"num_train_epochs": 3})).succeed()
    path, good = data()
    victim = list(CONTAINERS)[1]
    play = predict(path, "-e", "again=true")
    began = until(lambda: (status(NAME).get("state") == "running" and chunks(victim) > 3) or play.ended())
    check(began and not play.ended(), f"it never came to its first chunks:\n{play.output()[-3000:]}")
    on(victim, KILL_INSTANCE.format(directory=directory(NAME)), user="root")
    output = play.succeed()
    found = prediction()
    reasons = [attempt["reason"] for attempt in found["attempts"]]
    killed = reasons[0].startswith(f"rank 1 on {victim} was ended by signal 11 (SIGSEGV)")
    check(killed and reasons[1:] == [""], f"attempts: {reasons}")
    share = every_row_once(good)
    check(share > 0.8, f"only {share:.3f} of the rows have the right label")
    check("rows/s" in output and "2 rows could not be predicted" in output, f"it shows:\n{output[-2000:]}")
    refused = words(predict(path).fail())
    check("has the output of this prediction already" in refused, f"output that exists:\n{refused[-2000:]}")
    return [
        f"{found['predicted']} rows on {HOSTS} hosts, an instance killed on the way: each once and in order, "
        f"{share:.3f} of the labels right, {found['rows_per_second']:.0f} rows/s; 2 broken rows named by their lines"
    ]


def a_prediction_is_interrupted_and_continued() -> list[str]:
    """Press ctrl-C: the job goes on, and the same command follows it; stop it, and the same command continues it."""
    path, good = data()
    first = predict(path, "-e", "again=true")
    began = until(lambda: (status(NAME).get("state") == "running" and chunks(HEAD) > 3) or first.ended())
    check(began and not first.ended(), f"it never came to its first chunks:\n{first.output()[-3000:]}")
    first.kill(signal.SIGINT)
    Play("stop", "-e", f"job={NAME}").succeed()
    before = [chunks(host) for host in list(CONTAINERS)[:HOSTS]]
    check(all(before), f"chunks when it was stopped: {before}")
    refused = words(predict(path, "-e", "{setting: {batch_size: 16}}").fail())
    check("batch_size differs: 1, now 16" in refused, f"another setting was not refused:\n{refused[-2000:]}")
    output = predict(path).succeed()
    log = on(HEAD, f"cat {directory(NAME)}/log")
    every_row_once(good)
    total = prediction()["chunks"]
    left = sum(int(line.split(": ")[1].split()[0]) for line in log.splitlines() if "chunks are left" in line)
    check(
        left == total - sum(before), f"{left} chunks were left of {total}, and {before} were there:\n{output[-2000:]}"
    )
    return [f"stopped with {sum(before)} of {total} chunks, continued with the other {left}; each row once"]
