"""Directories of results for reports: a job that was restarted, sweeps of two clusters, tuning, inference, a network.

STAND-IN: the figures are made up, the files are as results.yml, scale.yml, tune.yml, infer.yml and network.yml
leave them.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep as sweeps
from ansible_collections.amx.cluster.plugins.module_utils._measure.inference_choice import SETTING
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import make, sources, style
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Request, Run
from support.runs import run as job_run

HOSTS = ("node0", "node1", "node2", "node3")
MODEL = "distilbert/distilbert-base-uncased"
STACK = "ipex-2.8"
SAPPHIRE_RAPIDS = "Intel(R) Xeon(R) Platinum 8488C"
ICE_LAKE = "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz"
SAMPLES = 88524
# Two ranks on a host of two sockets: 13 cores of each compute, one communicates, two are the system's.
LETTERS = ("0000000000000css", "1111111111111css")


def write_json(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def sweep(
    speed: float = 57.0,
    efficiency: Mapping[int, float | None] | None = None,
    repeats: int = 3,
    **fields: Any,
) -> dict[str, Any]:
    """The content of sweep.json. speed: samples/s of one host. efficiency: {hosts: of the ideal, None: failed}."""
    chance = random.Random(7)
    runs = [replace(sweep_run(1, 1, speed / 1.31, 0.04), job="squad+one-process-r1", baseline="one_process", ranks=1)]
    for count, share in ({1: 1.0, 2: 0.955, 4: 0.87} if efficiency is None else efficiency).items():
        loss = 0.04 + 0.2 * (1 - (share or 1)) + 0.06 * math.log2(count)
        for repeat in range(1, repeats + 1):
            rate = share and speed * count * share * (1 + chance.uniform(-0.03, 0.03))
            runs.append(sweep_run(count, repeat, rate, loss))
    sweep = sweeps.new(job_run(name="squad").job, HOSTS, Request([1, 2, 4], repeats), {}, "2026-11-22T10:00:00+00:00")
    about: dict[str, Any] = {
        "model": MODEL,
        "stack": STACK,
        "precision": "bf16",
        "backend": "ccl",
        "cpu": SAPPHIRE_RAPIDS,
    }
    sweep = replace(sweep, **about, samples_per_epoch=SAMPLES, ended="2026-11-22T10:14:00+00:00", runs=runs)
    text = "All-reduce moves 268 MB in each step, at 1.1 of the link's 1.25 GB/s."
    limits = {"cause": "bandwidth", "host": None, "text": text}
    return {**sweeps.summarised(sweep).to_json(), "limits": limits, **fields}


def sweep_run(count: int, repeat: int, speed: float | None, loss: float) -> Run:
    """A run of a sweep on `count` hosts, with a share of communication; without a speed it has failed."""
    begun = Run(f"squad+on-{count}-r{repeat}", count, list(HOSTS[:count]), repeat, None, ranks=2 * count)
    begun = replace(begun, ranks_per_node=2, threads_per_rank=13, seconds=61.0 + 3 * repeat)
    if not speed:
        return replace(begun, state="failed", reason=f"rank 3 on node{count - 1} ended with exit code 9")
    parts = {"compute": 0.93 - loss, "communication": loss, "input": 0.05, "other": 0.02}
    return replace(
        begun,
        state="succeeded",
        samples_per_second=speed,
        step_seconds={"median": 64 * count / speed, "low": 63 * count / speed, "high": 66 * count / speed, "count": 20},
        global_batch=64 * count,
        measured={"ranks": [{"rank": 0, "host": "node0", "step_seconds": 1.0, **parts}]},
    )


def losses(steps: int = 300, seed: int = 1) -> list[dict[str, Any]]:
    """A Trainer's history: the loss every ten steps, an evaluation every 100."""
    chance = random.Random(seed)
    points: list[dict[str, Any]] = []
    for step in range(10, steps + 1, 10):
        level = 1.05 + 4.6 * math.exp(-step / 70)
        entry = {"step": step, "epoch": step / steps}
        points.append({**entry, "loss": level * (1 + chance.uniform(-0.05, 0.05)), "learning_rate": 3e-5})
        if step % 100 == 0:
            points.append({**entry, "eval_loss": level * 1.04, "eval_f1": 85.0})
    return points


def utilization(hosts: Sequence[str] = HOSTS, seconds: int = 740, fault: int = 310) -> dict[str, Any]:
    """Return the use of hosts of 26 CPUs, with a pause of a minute after a fault."""
    chance = random.Random(3)
    use: dict[str, Any] = {}
    for place, host in enumerate(hosts):
        time = list(range(0, seconds, 4))
        idle = [at < 24 or fault <= at < fault + 60 for at in time]
        busy = [0.4 if rests else 26 * (0.93 - 0.05 * place) * (1 + chance.uniform(-0.06, 0.06)) for rests in idle]
        use[host] = {
            "cpus": 26,
            "time": time,
            "busy_cpus": busy,
            "memory_bytes": [2e9 if rests else 9.1e9 + 2e8 * place for rests in idle],
            "network_bytes_per_second": [1e4 if rests else 410e6 * (1 + chance.uniform(-0.1, 0.1)) for rests in idle],
        }
    return {"version": 1, "interval": 4, "hosts": use}


def plan(hosts: Sequence[str] = HOSTS) -> dict[str, Any]:
    rows = [{"socket": place, "node": place, "letters": letters} for place, letters in enumerate(LETTERS)]
    return {
        "job": "squad",
        "world_size": 2 * len(hosts),
        "environment": "/opt/amx-cluster/envs/ipex-2.8",
        "hosts": [
            {
                "host": host,
                "address": f"10.0.0.{10 + place}",
                "interface": "eth0",
                "isa": "amx",
                "amx": "usable",
                "env": {"OMP_NUM_THREADS": "13", "CCL_WORKER_COUNT": "1", "MASTER_ADDR": "10.0.0.10"},
                "ranks": [{"rank": 2 * place}, {"rank": 2 * place + 1}],
                "threads_per_rank": 13,
                "map": {"rows": rows, "offline": ""},
            }
            for place, host in enumerate(hosts)
        ],
    }


def write_job(path: Path, hosts: Sequence[str] = HOSTS, **fields: Any) -> Path:
    """Write the directory of a job that was restarted once, and learnt. fields: of results.json."""
    results: dict[str, Any] = {
        "job": "squad",
        "model": MODEL,
        "state": "succeeded",
        "reason": "",
        "started": "2026-11-22T11:00:00+00:00",
        "ended": "2026-11-22T11:12:20+00:00",
        "seconds": 740.0,
        "hosts": len(hosts),
        "ranks": 2 * len(hosts),
        "notes": [],
        "restarts": 1,
        "threads_per_rank": [13] * len(hosts),
        "precision": "bf16",
        "isas": ["amx"],
        "backend": "ccl",
        "stack": STACK,
        "metrics": {
            "eval_exact_match": 76.4,
            "eval_f1": 84.6,
            "eval_loss": 1.19,
            "eval_runtime": 21.0,
            "train_loss": 1.61,
            "train_runtime": 655.0,
            "train_samples_per_second": 270.2,
        },
        "steps": 300,
        "resumed_step": 150,
        "attempts": [
            {
                "started": "2026-11-22T11:00:00+00:00",
                "from": "the beginning",
                "ended": "2026-11-22T11:05:10+00:00",
                "returncode": 1,
                "reason": "rank 5 on node2 was killed for lack of memory",
            },
            {
                "started": "2026-11-22T11:05:40+00:00",
                "from": "checkpoint-150",
                "ended": "2026-11-22T11:12:20+00:00",
                "returncode": 0,
                "reason": "",
            },
        ],
        "measured": {
            "warmup_steps": 5,
            "steps": 20,
            "samples_per_step": 256,
            "step_seconds": {"median": 0.945, "low": 0.93, "high": 1.01, "mean": 0.95, "count": 20},
            "samples_per_second": 269.5,
            "ranks": [
                {
                    "rank": rank,
                    "host": hosts[rank // 2],
                    "step_seconds": 0.95,
                    "compute": 0.76 - 0.01 * rank,
                    "communication": 0.13 + 0.01 * rank,
                    "input": 0.04,
                    "other": 0.02,
                }
                for rank in range(2 * len(hosts))
            ],
            "collectives": {"calls": 11.0, "bytes": 268e6, "backend": "ccl"},
            "overhead": None,
        },
        **fields,
    }
    write_json(path / "results.json", results)
    write_json(path / "plan.json", plan(hosts))
    write_json(path / "utilization.json", utilization(hosts))
    write_json(path / "output" / "trainer_state.json", {"log_history": losses()})
    packages = {"torch": "2.8.0+cpu", "intel-extension-for-pytorch": "2.8.0", "transformers": "4.55.4"}
    write_json(path / "stack.json", {"name": STACK, "interpreter": "3.11", "packages": packages})
    (path / "launch.sh").write_text(
        "#!/usr/bin/env bash\nexec mpirun -f hostfile -n 8 -ppn 2 \\\n  python rank.py run_qa.py\n"
    )
    return path


def write_sweep(path: Path, **fields: Any) -> Path:
    """Write the directory of a sweep. fields: as sweep() has them."""
    write_json(path / "sweep.json", sweep(**fields))
    return path


def tuning(**fields: Any) -> dict[str, Any]:
    """The content of tune.json: a plan that is faster than the default."""
    settings: list[dict[str, Any]] = [
        {"ranks_per_node": ranks, "comm_cores": comm, "reserved_cores": 2, "threads_per_core": 1, "backend": "ccl"}
        for ranks in (1, 2, 4)
        for comm in (0, 1, 2)
    ]
    speeds = [41.0, 47.5, 46.0, 52.0, 57.0, 55.0, 56.0, 61.3, None]
    return {
        "version": 1,
        "job": "squad",
        "model": MODEL,
        "stack": STACK,
        "precision": "bf16",
        "budget_minutes": 30,
        "used_minutes": 21.5,
        "started": "2026-11-22T09:00:00+00:00",
        "ended": "2026-11-22T09:21:30+00:00",
        "trials": [
            {
                "settings": setting,
                "default": place == 4,
                "round": 1 if (speed or 0) < 55 else 2,
                "steps": 20,
                "samples_per_second": speed,
                "state": "succeeded" if speed else "failed",
                "reason": "" if speed else "8 communication cores leave 24 for 4 ranks, and 2 of them are reserved",
                "job": f"squad-t{place}",
                "seconds": 74.0,
            }
            for place, (setting, speed) in enumerate(zip(settings, speeds))
        ],
        "final": {"default": [56.8, 57.2, 57.1], "winner": [61.0, 61.4, 61.9]},
        "winner": settings[7],
        "verdict": "faster",
        "gain": 61.4 / 57.1,
        "diff": "--- a/jobs/squad.yml\n+++ b/jobs/squad.yml\n@@ -1,2 +1,2 @@\n-ranks_per_node: 2\n+ranks_per_node: 4\n",
        "batch_allowed": False,
        "notes": [],
        **fields,
    }


def network(hosts: Sequence[str] = HOSTS, slow: str = "node2", **fields: Any) -> dict[str, Any]:
    """The content of network.json: the pairs of one host are slow."""
    pairs = [(first, other) for place, first in enumerate(hosts) for other in hosts[place + 1 :]]
    sizes = [4 << (2 * power) for power in range(5, 13)]
    return {
        "version": 1,
        "job": None,
        "hosts": [{"host": host, "address": "", "interface": "eth0", "link_mbit": 10000} for host in hosts],
        "provider": "tcp",
        "started": "2026-11-22T08:00:00+00:00",
        "ended": "2026-11-22T08:02:00+00:00",
        "pairs": [
            {
                "hosts": list(pair),
                "latency_us": 28.0,
                "bandwidth_mbyte_s": 244.0 if slow in pair else 1130.0,
                "state": "measured",
                "reason": "",
            }
            for pair in pairs
        ],
        "collectives": [
            {
                "tool": tool,
                "backend": backend,
                "operation": operation,
                "bytes": size,
                "ranks": 8,
                "microseconds": factor * (60 + size / 900),
                "low": factor * 0.95 * (60 + size / 900),
                "high": factor * 1.1 * (60 + size / 900),
            }
            for tool, backend, scale in (("imb", "mpi", 1.0), ("torch", "gloo", 1.6))
            for operation, factor in (
                ("broadcast", scale),
                ("reduce", 1.1 * scale),
                ("reduce_scatter", 1.3 * scale),
                ("all_reduce", 2.0 * scale),
                ("all_gather", 1.5 * scale),
                ("all_to_all", 2.6 * scale),
            )
            for size in sizes
        ],
        "findings": [
            {
                "kind": "slow_host",
                "host": slow,
                "pair": None,
                "text": f"{slow} reaches 244 MB/s with every other host, the median is 1130 MB/s: check its "
                "cable and port.",
            }
        ],
        "prediction": None,
        **fields,
    }


# Of each model: task, milliseconds of a sample on a core in fp32, sequence length, new tokens.
MODELS: dict[str, tuple[str, float, int | None, int | None]] = {
    "distilbert": ("text-classification", 260.0, 128, None),
    "resnet-50": ("image-classification", 190.0, None, None),
    "llama-1b": ("text-generation", 9000.0, 32, 16),
}
# Of each precision with its int8 way: times as fast as fp32, and the share of equal predictions.
PRECISIONS: dict[tuple[str, str | None], tuple[float, float | None]] = {
    ("fp32", None): (1.0, None),
    ("bf16", None): (2.6, 0.998),
    ("int8", "dynamic"): (2.1, 0.961),
    ("int8", "static"): (3.4, 0.9995),
}
INSTANCES = (1, 2, 4, 8)
CORES = 32
NO_BF16 = "the CPU has neither AMX nor AVX-512 for bf16: add emulation: true to the job file to run it all the same"
NO_STATIC = "static quantization of this model needs calibration data, and the job has none"


def percentiles(middle: float, tail: float = 1.6) -> dict[str, Any]:
    return {
        "mean": middle * 1.05,
        "p50": middle,
        "p90": middle * (1 + 0.6 * (tail - 1)),
        "p99": middle * tail,
        "count": 900,
    }


def cell(
    number: int, model: str, precision: str, int8: str | None, batch: int, instances: int, speed: float, rates: bool
) -> dict[str, Any]:
    """A cell that was measured. speed: of the cluster, times as fast as the first."""
    task, work, tokens, new = MODELS[model]
    gain, equal = PRECISIONS[precision, int8]
    threads = CORES // instances
    # More threads on a batch gain less and less; more instances share the memory.
    busy = batch * work / (threads**0.75 * gain * speed) * (1 + 0.05 * instances)
    value = 2 * instances * batch / busy * 1000
    return {
        "id": f"c{number:02}",
        "model": model,
        "task": task,
        "precision": precision,
        "int8": int8,
        "engine": "eager",
        "autocast": False,
        "channels_last": True if tokens is None else None,
        "batch_size": batch,
        "sequence_length": tokens,
        "new_tokens": new,
        "instances_per_node": instances,
        "threads_per_instance": threads,
        "hosts": 2,
        "instances": 2 * instances,
        "state": "measured",
        "reason": "",
        "throughput": {"value": value, "low": value * 0.97, "high": value * 1.02},
        "latency_ms": percentiles(busy),
        "first_call_seconds": 0.4,
        "peak_memory_bytes": 9e8,
        "isa": "avx512_core_amx" if precision != "fp32" else "avx512_core",
        "emulated": False,
        "int8_route": "torchao" if int8 else None,
        "agreement": equal
        and {"equal": equal, "largest_difference": 3.1 * (1 - equal), "samples": 872, "data": "evaluation data"},
        "generation": new
        and {
            "prefill_ms": percentiles(busy * 0.2),
            "per_token_ms": percentiles(busy * 0.05, 1.2),
            "tokens_per_second": value * new,
        },
        "open_loop": [
            {
                "rate": share * 1000 / busy,
                "latency_ms": percentiles(busy * (1 + share**4 * 3)),
                "throughput": value * share,
            }
            for share in ((0.25, 0.5, 0.75, 0.9) if rates else ())
        ],
        "overhead": 0.002,
    }


def inference(cpu: str = SAPPHIRE_RAPIDS, limit: float | None = None, **fields: Any) -> dict[str, Any]:
    """The content of inference.json; Ice Lake is slower and refuses bf16. limit: of p99, in milliseconds."""
    slower = cpu == ICE_LAKE
    cells: list[dict[str, Any]] = []
    for model in MODELS:
        for precision, int8 in PRECISIONS:
            for batch in (1, 16):
                for instances in INSTANCES:
                    made = cell(
                        len(cells) + 1,
                        model,
                        precision,
                        int8,
                        batch,
                        instances,
                        0.55 if slower else 1.0,
                        rates=model == "distilbert" and batch == 1 and instances == 4,
                    )
                    reason = NO_BF16 if slower and precision == "bf16" else ""
                    reason = NO_STATIC if int8 == "static" and model != "distilbert" else reason
                    if reason:
                        nothing = ("throughput", "latency_ms", "agreement", "generation", "isa", "int8_route")
                        made.update(state="refused", reason=reason, open_loop=[], **dict.fromkeys(nothing))
                    cells.append(made)
    failed = cells[23]
    failed.update(
        state="failed", reason="rank 7 on node1 was killed for lack of memory", throughput=None, latency_ms=None
    )
    recommended = {}
    for model in MODELS:
        there = [cell for cell in cells if cell["model"] == model and cell["state"] == "measured"]
        kept = [cell for cell in there if limit is None or cell["latency_ms"]["p99"] <= limit]
        if kept:
            most = max(kept, key=lambda cell: float(cell["throughput"]["value"]))
            recommended[model] = {
                "cell": most["id"],
                "settings": {key: most[key] for key in SETTING},
                "throughput": most["throughput"],
                "p99_ms": most["latency_ms"]["p99"],
                "text": f"{most['precision']} has the most throughput of {len(kept)} cells.",
            }
    return {
        "version": 1,
        "job": "serve",
        "started": "2026-11-22T12:00:00+00:00",
        "ended": "2026-11-22T12:26:00+00:00",
        "state": "complete",
        "cpu": cpu,
        "stack": "native",
        "hosts": 2,
        "names": ["node0", "node1"],
        "limit_p99_ms": limit,
        "budget_minutes": 30,
        "used_minutes": 26.0,
        "cells": cells,
        "recommended": recommended,
        "notes": [],
        **fields,
    }


def write_inference(path: Path, **fields: Any) -> Path:
    """Write the directory of an inference benchmark. fields: as inference() has them."""
    write_json(path / "inference.json", inference(**fields))
    return path


def report(*paths: Path, price: Price | None = None) -> make.Report:
    """The report of these directories."""
    with style.drawing():
        return make.make(sources.read(paths), price)


def figure(made: make.Report, name: str) -> style.Drawn:
    (figure,) = [drawn for drawn in made.drawn if drawn.name == name]
    return figure


def load_run(instances: int | None, capacity: float, texts: bool = False, **fields: Any) -> dict[str, Any]:
    """A run of a load on a server that answers so many requests a second; its last step is overloaded."""
    steps = []
    for share in (0.1, 0.2, 0.4, 0.8, 1.0, 4.0):
        p99 = 0.05 / max(0.02, 1.01 - share)
        latency = {"mean": p99 / 2.5, "p50": p99 / 3, "p90": p99 / 1.5, "p99": p99, "max": p99 * 1.2}
        step = {
            "rate": share * capacity,
            "state": "overloaded" if share > 1 else "measured",
            "held": share < 1,
            "remark": "overloaded: ended with too many requests under way" if share > 1 else "",
            "requests": round(share * capacity * 20),
            "achieved": min(share, 1.0) * capacity,
            "latency_seconds": {name: value * (9 if texts else 1) for name, value in latency.items()},
            "lateness_seconds": {"p99": 0.001},
            "instances": [instances, instances],
            **({"first_token_seconds": latency, "tokens_per_second": 64 * share * capacity} if texts else {}),
        }
        steps.append(step)
    about = {"model": "demo", "precision": "fp32", "limit_p99_ms": 1000.0, "started": "2026-11-28T10:00:00+00:00"}
    return {**about, "steps": steps, **fields}


def write_load(path: Path, *runs: Mapping[str, Any], job: str = "demo") -> Path:
    write_json(path / "load.json", {"version": 1, "job": job, "runs": runs})
    return path
