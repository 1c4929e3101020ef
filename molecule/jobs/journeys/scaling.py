"""A sweep over one and two hosts: interrupted in its midst, and continued by the same command."""

from __future__ import annotations

import copy
import json
import os
import signal
from pathlib import Path
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import EPHEMERAL, Play, job_file, status, until
from support.journeys import check
from support.smoke_job import SCRIPTS

NAME = "scaling"
# Where the sweep lies for a report: the scenario's own directory of results.
RESULTS = EPHEMERAL / "results"
STEPS, WARMUP = 6, 2


def job() -> Path:
    """Write the job: the smoke job with a rank of one core on each host."""
    fields = copy.deepcopy(yaml.safe_load((ROOT / "jobs/smoke.yml").read_text(encoding="utf-8")))
    fields.update(name=NAME, script=str(SCRIPTS / "train_text.py"))
    fields["prepare"]["script"] = str(SCRIPTS / "generated_pairs.py")
    fields["prepare"]["args"].update(train_pairs=600, validation_pairs=50)
    return job_file(fields)


def scale(*more: str) -> Play:
    """Start the sweep, or go on with it."""
    options = {"counts": [1, 2], "repeats": 1, "steps": STEPS, "warmup_steps": WARMUP}
    words = ["-e", json.dumps({**options, "job": str(job()), "scale_results": str(RESULTS)}), *more]
    return Play("scale", *words)


def sweep() -> dict[str, Any]:
    """Return the sweep as it is now; empty while there is none."""
    try:
        found: dict[str, Any] = json.loads((RESULTS / f"{NAME}-scale/sweep.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def made() -> dict[str, str]:
    """Return the runs that have succeeded, with when each was started."""
    return {run["job"]: run["started"] for run in sweep().get("runs", []) if run["state"] == "succeeded"}


def a_sweep_is_interrupted_and_continued() -> list[str]:
    """Sweep over one and two hosts; press ctrl-C while the second run trains, and give the same command again."""
    first = scale("-e", "again=true")
    second = f"{NAME}+on-2-r1"
    running = until(lambda: (status(second).get("state") == "running" and len(made()) == 1) or first.ended())
    check(running and not first.ended(), f"{second} never ran:\n{first.output()[-3000:]}")
    first.kill(signal.SIGINT)
    before = made()
    check(list(before) == [f"{NAME}+on-1-r1"], f"made when it was interrupted: {before}")
    output = scale().succeed()
    after = sweep()
    check(after["state"] == "complete", f"the sweep is {after['state']}")
    check(made()[f"{NAME}+on-1-r1"] == before[f"{NAME}+on-1-r1"], "the run that had been made was made again")
    counts = {entry["hosts"]: entry for entry in after["counts"]}
    check(sorted(counts) == [1, 2] and all(not entry["failed"] for entry in counts.values()), f"counts: {counts}")
    check([entry["ranks"] for entry in counts.values()] == [1, 2], f"ranks: {counts}")
    batches = [entry["global_batch"] for entry in counts.values()]
    check(batches == [16, 32], f"global batches: {batches}")
    speeds = {hosts: entry["samples_per_second"]["median"] for hosts, entry in counts.items()}
    speedup = counts[2]["speedup"]["median"]
    check(abs(speedup - speeds[2] / speeds[1]) < 1e-9, f"speed-up {speedup} of {speeds}")
    check(after["one_process"]["samples_per_second"] == counts[1]["samples_per_second"], "one process is another run")
    check(f"{speeds[2]:.1f}" in output, f"the table has no {speeds[2]:.1f}:\n{output[-3000:]}")
    check("extrapolated" in output, f"the time of an epoch is not marked:\n{output[-3000:]}")
    again = scale().succeed()
    check("node0]" not in again, f"a host was asked for a complete sweep:\n{again}")
    return [
        f"sweep of 1 and 2 hosts, interrupted in the second run and continued: "
        f"{', '.join(f'{speed:.1f}' for speed in speeds.values())} samples/s, speed-up "
        f"{', '.join(format(entry['speedup']['median'], '.2f') for entry in counts.values())} "
        f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs); {after['limits']['text']}"
    ]
