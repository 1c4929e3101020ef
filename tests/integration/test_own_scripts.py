"""Scripts of other frameworks, as their documentation has them, on two ranks: docs/own_train_py.md.

Real runs of train.yml on this machine, with each framework out of the package index. Two ranks must end with the
weights of one that has the same batches: these are SGD's, so that a gradient of another size shows.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout, playbooks
from support.at_length import only_at_length
from support.local_cluster import installed_here

SCRIPTS = Path(__file__).parent / "own_scripts"
MODELS = {name: {"directory": f"models/{name}"} for name in ("encoder", "llama")}
TORCH: dict[str, Any] = {"kind": "torch"}
TRL: dict[str, Any] = {"models": MODELS, "requirements": ["trl==1.16.0"]}
CASES: dict[str, dict[str, Any]] = {
    "plain": TORCH,
    "accelerated": TORCH,
    "lightning_script": {**TORCH, "requirements": ["lightning==2.6.6"]},
    "trainer": {"models": MODELS},
    "sentences": {"models": MODELS, "requirements": ["sentence-transformers==6.2.0"]},
    "trl_sft": TRL,
    "trl_dpo": TRL,
}
ROUNDING = 1e-6
ONE_RANK = {
    **{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"},
    **{"MASTER_PORT": "29873", "ACCELERATE_USE_CPU": "true", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    """A directory of a user's, with scripts, models and an inventory of this machine alone."""
    folder = tmp_path_factory.mktemp("own")
    installed_here(folder)
    shutil.copytree(SCRIPTS, folder / "mine")
    subprocess.run([environment / "bin/python", SCRIPTS / "small.py", folder / "models"], check=True)
    return folder


def outcome(folder: Path) -> tuple[dict[str, Any], list[float]]:
    """Return what a script has reported, and the weights at its end."""
    report, weights = (json.loads((folder / f"output/{name}.json").read_text()) for name in ("all_results", "weights"))
    return report, weights


def alone(site: Path, name: str, environment: Path, packages: Path) -> tuple[dict[str, Any], list[float]]:
    """Run a script as one rank without the collection, with the packages of a job."""
    folder = site / f"{name}-alone"
    folder.mkdir()
    (folder / "models").symlink_to(site / "models")
    ran = subprocess.run(
        [environment / "bin/python", site / f"mine/{name}.py"],
        cwd=folder,
        env={**os.environ, **ONE_RANK, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return outcome(folder)


@pytest.mark.parametrize("name", [pytest.param(name, marks=only_at_length("it takes a minute")) for name in CASES])
def test_two_ranks_train_as_one(site: Path, environment: Path, name: str) -> None:
    job = {
        "name": name.replace("_", "-"),
        "project": "mine",
        "script": f"{name}.py",
        "ranks_per_node": 2,
        **CASES[name],
    }
    (site / "job.yml").write_text(yaml.safe_dump(job))
    ran = playbooks.play(site, checkout.ROOT / "playbooks/train.yml", "-e", "job=job.yml")
    assert ran.returncode == 0, ran.stdout[-6000:]
    directory = site / "prefix/jobs" / job["name"]
    report, weights = outcome(directory)
    one, expected = alone(site, name, environment, directory / "packages")
    assert (report["world"], report["equal"], one["world"]) == (2, 1, 1)
    # The scripts train in fp32, also where the job's precision is bf16.
    assert report.get("precision", "no") == "no"
    assert report["loss"] != report["first"]
    assert len(weights) == len(expected) and max(abs(a - b) for a, b in zip(weights, expected)) < ROUNDING


@only_at_length("it installs a stack")
def test_llamafactory_trains_as_on_one_rank(tmp_path: Path, environment: Path) -> None:
    page = (checkout.ROOT / "docs/own_train_py.md").read_text(encoding="utf-8")
    (stack,) = re.findall(r"^    cluster_stack: llamafactory\n(?:    .*\n)+", page, re.MULTILINE)
    given = {
        "cluster_cache": str(tmp_path / "cache"),
        "cluster_verify": False,
        **yaml.safe_load(textwrap.dedent(stack)),
    }
    playbooks.write_inventory(tmp_path, tmp_path / "prefix", {"localhost": playbooks.LOCAL}, **given)
    subprocess.run([environment / "bin/python", SCRIPTS / "small.py", tmp_path / "models"], check=True)
    draw, rows = random.Random(1), tmp_path / "own"
    words = [" ".join(f"w{draw.randrange(40)}" for _ in range(8)) for _row in range(64)]
    columns = {"prompt": "instruction", "response": "output"}
    for folder, name, text in (
        ("mine", "train.py", "from llamafactory.train.tuner import run_exp\nrun_exp()\n"),
        ("mine", "torchaudio.py", ""),
        ("own", "rows.jsonl", "\n".join(json.dumps({"instruction": text, "output": text}) for text in words)),
        ("own", "dataset_info.json", json.dumps({"own": {"file_name": "rows.jsonl", "columns": columns}})),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    args = {"stage": "sft", "do_train": True, "finetuning_type": "full", "model_name_or_path": "models/llama"}
    args |= {"dataset_dir": "datasets/own", "dataset": "own", "template": "empty", "num_train_epochs": 2}
    # The loss of a whole training is that of all ranks only where each step is logged.
    args |= {"learning_rate": 0.1, "optim": "sgd", "logging_steps": 1}
    job = {"name": "mine", "project": "mine", "script": "train.py", "precision": "fp32", "models": MODELS}
    ran = playbooks.play(tmp_path, checkout.ROOT / "playbooks/site.yml")
    assert ran.returncode == 0, ran.stdout[-6000:]
    losses = []
    for ranks in (2, 1):
        of_ranks = {"ranks_per_node": ranks, "args": {**args, "per_device_train_batch_size": 16 // ranks}}
        data = {"own": {"directory": str(rows)}}
        (tmp_path / "job.yml").write_text(yaml.safe_dump({**job, **of_ranks, "data": data}))
        ran = playbooks.play(tmp_path, checkout.ROOT / "playbooks/train.yml", "-e", "job=job.yml")
        assert ran.returncode == 0, ran.stdout[-6000:]
        results = json.loads((tmp_path / "prefix/jobs/mine/results.json").read_text())
        assert (results["world"]["size"], results["steps"]) == (ranks, 8)
        losses.append(results["metrics"]["train_loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
