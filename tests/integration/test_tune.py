"""playbooks/tune.yml on this machine, with the real mpirun and torch: a job is tried with other ranks and backends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import tuning_files
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning import Tuning
from support import checkout, playbooks
from support.at_length import AT_LENGTH, only_at_length
from support.local_cluster import installed_here

pytestmark = only_at_length("trials are in the unit tests; the scenario jobs runs a sweep by the same role")

# It writes its own throughput, as a script that is not of transformers' Trainer has to. A step takes as long with two
# ranks as with one, and has twice the samples: what is fastest is known.
SCRIPT = """
import json, os, time
from pathlib import Path

import torch
from torch import distributed, nn

plan = json.loads(Path(os.environ["AMX_CLUSTER_JOB"], "plan.json").read_text())
distributed.init_process_group(plan["backend"])
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
batch = torch.ones(64, 256)
for step in range(60):
    if step == 10:
        began = time.monotonic()
    optimizer.zero_grad()
    time.sleep(0.05)
    model(batch).mean().backward()
    optimizer.step()
speed = 50 * 64 * distributed.get_world_size() / (time.monotonic() - began)
if distributed.get_rank() == 0:
    Path("output").mkdir()
    Path("output/all_results.json").write_text(json.dumps({"train_samples_per_second": speed}))
distributed.destroy_process_group()
"""
JOB = """\
# The job of the test.
name: tiny
script: tiny.py   # beside this file
kind: torch
ranks_per_node: 1  # to be tuned
watch: {gradients: false}
# the end
"""
# Minutes; far more than the trials take.
BUDGET = 20
VARY = "ranks_per_node,backend" if AT_LENGTH else "ranks_per_node"
REQUEST = ("-e", "job=tiny.yml", "-e", f"budget={BUDGET}", "-e", "repeats=3", "-e", f"vary={VARY}")


def tune(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return play(folder, "tune", *options)


def refused(folder: Path, *options: str) -> str:
    done = tune(folder, *options)
    assert done.returncode != 0
    return " ".join(done.stdout.split())


def play(folder: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return playbooks.play(folder, checkout.ROOT / f"playbooks/{name}.yml", *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    installed_here(folder)
    (folder / "tiny.py").write_text(SCRIPT)
    (folder / "tiny.yml").write_text(JOB)
    return folder


@pytest.fixture(scope="module")
def tuned(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    done = tune(folder, *REQUEST)
    assert done.returncode == 0, done.stdout[-8000:]
    yield json.loads((folder / "results/tiny-tune/tune.json").read_text()), done.stdout


def test_the_fastest_settings_are_found_and_shown(tuned: tuple[dict[str, Any], str], folder: Path) -> None:
    content, shown = tuned
    assert content["trials"][0]["default"]
    assert content["trials"][0]["state"] == "succeeded"
    assert content["verdict"] == "faster", content
    assert content["winner"]["ranks_per_node"] == 2
    assert content["gain"] > 1.3
    assert len([trial for trial in content["trials"] if trial["round"] == 1]) > 1
    assert len({trial["job"] for trial in content["trials"]}) == len(content["trials"])
    assert content["used_minutes"] > 0
    assert "samples/s" in shown
    assert "+ranks_per_node: 2  # to be tuned" in shown
    assert (folder / "tiny.yml").read_text() == JOB  # without write=true


@only_at_length("what is written to an inventory is in test_tunes.py, and the job file is written to here")
def test_the_winner_goes_to_the_inventory_and_reaches_the_job(tuned: tuple[dict[str, Any], str], folder: Path) -> None:
    content, _shown = tuned
    options = (*REQUEST, "-e", "write_to=inventory")
    assert "write_to: inventory: there is no" in refused(folder, *options)
    variables = folder / "group_vars" / "cluster.yml"
    variables.parent.mkdir()
    before = "# Ours.\ncluster_verify: false  # quick\n# the end\n"
    variables.write_text(before)
    try:
        assert "tiny.yml sets ranks_per_node, " in refused(folder, *options)
        (folder / "open.yml").write_text(
            JOB.replace("ranks_per_node: 1  # to be tuned\n", "").replace("tiny\n", "open\n")
        )
        # What was tuned: the job, with the one rank that it took.
        opened = json.loads(json.dumps(content))
        opened["job"] = opened["request"]["job"]["name"] = "open"
        opened["request"]["job"]["ranks_per_node"] = "auto"
        opened["diff"] = tuning_files.diff(Tuning.from_json(opened), load(folder / "open.yml"))
        (folder / "results/open-tune").mkdir()
        _io.write_json(folder / "results/open-tune/tune.json", opened)
        request = ("-e", "job=open.yml", *options[2:])
        shown = tune(folder, *request)
        assert shown.returncode == 0, shown.stdout[-8000:]
        assert "+cluster_cores: {ranks_per_node: 2" in shown.stdout
        assert "+++ b/group_vars/cluster.yml" in shown.stdout
        assert variables.read_text() == before
        done = tune(folder, *request, "-e", "write=true")
        assert done.returncode == 0, done.stdout[-8000:]
        after = variables.read_text()
        assert after.startswith("# Ours.\ncluster_verify: false  # quick\ncluster_cores: {ranks_per_node: 2")
        assert after.endswith("\n# the end\n")
        again = tune(folder, *request, "-e", "write=true")
        assert "The inventory has these settings already." in again.stdout
        assert variables.read_text() == after
        planned = play(folder, "plan", "-e", "job=open.yml")
        assert "2 ranks" in planned.stdout, planned.stdout[-4000:]
    finally:
        variables.unlink()
        variables.parent.rmdir()


def test_the_diff_applies_and_the_job_file_still_reads(tuned: tuple[dict[str, Any], str], folder: Path) -> None:
    content, _shown = tuned
    done = tune(folder, *REQUEST, "-e", "write=true")
    assert done.returncode == 0, done.stdout[-8000:]
    assert json.loads((folder / "results/tiny-tune/tune.json").read_text())["trials"] == content["trials"]
    job, default = load(folder / "tiny.yml"), content["candidates"][0]
    changed = {name: value for name, value in content["winner"].items() if value != default[name]}
    assert {name: getattr(job, name) for name in changed} == changed
    text = (folder / "tiny.yml").read_text()
    assert text.startswith(JOB.replace("node: 1", "node: 2").rpartition("# the end")[0])
    (folder / "tiny.yml").write_text(JOB)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-e", "job=tiny.yml", "-e", "budget=0.2"], "budget: 0.2 min are too short"),
        (["-e", "job=tiny.yml", "-e", "steps=7"], "tune.json is the tuning of another request"),
    ],
)
def test_refusals(tuned: tuple[dict[str, Any], str], folder: Path, options: list[str], message: str) -> None:
    before = sorted(folder.rglob("*"))
    done = tune(folder, *options)
    assert done.returncode != 0
    assert message in " ".join(done.stdout.split())
    assert sorted(folder.rglob("*")) == before
