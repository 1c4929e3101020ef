"""How long a job takes, as it is estimated from a few steps on one host, beside how long it then takes.

Real ranks, Trainer, observer and supervisor on one host and two; what stands in for the hosts is in
tests/support/separate_hosts.py. Each rank has one thread, and the machine two cores at least.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure, Watch
from ansible_collections.amx.cluster.plugins.module_utils._measure import estimate
from ansible_collections.amx.cluster.plugins.module_utils._measure.estimate import Estimate
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Run
from support import runs
from support.at_length import only_at_length
from support.checkout import ROOT
from support.separate_hosts import Hosts, needs_mounts

SCRIPT = ROOT / "tests/integration/zoo/decoder.py"
HOSTS = ["node0", "node1"]
STEPS, WARMUP, EPOCHS, BATCH, ROWS = 5, 5, 6, 16, 64
SIZE = {"HIDDEN": "512", "LAYERS": "6"}
NEAR = 1.35
# Between the same steps at the beginning and at the end: a machine that is busier at one of them says nothing.
QUIET = 1.15
REDUCES = """
import json, statistics, time
from pathlib import Path
import torch
from torch import distributed

distributed.init_process_group("gloo")
rows = []
for size in (1 << 16, 1 << 20, 25 << 20):
    tensor, times = torch.ones(size // 4), []
    for _turn in range(7):
        distributed.barrier()
        began = time.monotonic()
        distributed.all_reduce(tensor)
        times.append(time.monotonic() - began)
    row = {"tool": "torch", "backend": "gloo", "operation": "all_reduce", "bytes": size, "ranks": 2}
    rows.append({**row, "microseconds": 1e6 * statistics.median(times)})
if distributed.get_rank() == 0:
    Path("output").mkdir(exist_ok=True)
    Path("output/all_results.json").write_text(json.dumps({"rows": rows}))
distributed.destroy_process_group()
"""


pytestmark = [
    needs_mounts,
    only_at_length("it compares times, and needs a quiet machine with two cores"),
]


def ran(base: Path, environment: Path, hosts: int, script: Path = SCRIPT, **fields: Any) -> Hosts:
    """Run a job on so many hosts to its end."""
    base.mkdir()
    made = Hosts(base, environment)
    for name in HOSTS[hosts:]:
        del made.places[name]
    made.start(script, **{"kind": "trainer", "env": SIZE, **fields})
    status, log = made.ended()
    assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
    return made


def args(**more: Any) -> dict[str, Any]:
    batch = {"per_device_train_batch_size": BATCH, "num_train_epochs": EPOCHS}
    return {**batch, "logging_steps": 1, "save_strategy": "no", "report_to": "none", **more}


def seconds_of_a_step(hosts: Hosts) -> float:
    """Return the mean since the warm-up, from what the progress has."""
    progress = read_json(hosts.folder / "progress.json") or {}
    since = progress["steady"]
    return float(progress["time"] - since["time"]) / (progress["step"] - since["step"])


def test_what_was_estimated_is_what_it_takes(tmp_path: Path, environment: Path) -> None:
    """The samples, steps and bytes exactly, the times nearly."""
    (tmp_path / "reduces.py").write_text(REDUCES)
    trial = ran(tmp_path / "trial", environment, 1, args=args(max_steps=STEPS + WARMUP), measure=Measure(WARMUP))
    reduced = ran(
        tmp_path / "network", environment, 2, tmp_path / "reduces.py", kind="torch", watch=Watch(gradients=False)
    )
    one = ran(tmp_path / "one", environment, 1, args=args())
    two = ran(tmp_path / "two", environment, 2, args=args())
    again = ran(tmp_path / "again", environment, 1, args=args(max_steps=STEPS + WARMUP), measure=Measure(WARMUP))
    tried = {
        "job": "demo",
        "state": "succeeded",
        "plan": read_json(trial.folder / "plan.json"),
        "progress": read_json(trial.folder / "progress.json"),
        "outcome": read_json(trial.folder / "results.json"),
    }
    network = {
        "hosts": [{"host": name} for name in HOSTS],
        "ended": "2026-11-25T12:00:00+00:00",
        "collectives": json.loads((reduced.folder / "output/all_results.json").read_text())["rows"],
    }
    job = runs.run(script=SCRIPT, kind="trainer", args=args(), backend="gloo").job
    content = Estimate(1, "demo", 2, STEPS, WARMUP, "", Run("demo+estimate", 1, HOSTS[:1], 1, None))
    content = estimate.estimated(content, job, tried, network, HOSTS, 2)
    print(estimate.text(content, "estimate.json"))
    assert [row.steps for row in content.rows] == [
        (read_json(hosts.folder / "progress.json") or {})["step"] for hosts in (one, two)
    ]
    assert content.training["samples"] == ROWS
    found = [seconds_of_a_step(hosts) for hosts in (one, two)]
    for row, real in zip(content.rows, found):
        print(
            f"{row.hosts} hosts: {row.step_seconds:.3f} s estimated, {real:.3f} s made: {row.step_seconds / real:.2f}"
        )
    before, after = (
        (read_json(made.folder / "results.json") or {})["measured"]["step_seconds"]["mean"] for made in (trial, again)
    )
    if not 1 / QUIET < before / after < QUIET:
        pytest.skip(f"the machine is not quiet: a step took {before:.2f} s, and later {after:.2f} s")
    for row, real in zip(content.rows, found):
        assert 1 / NEAR < row.step_seconds / real < NEAR, (row, real)
