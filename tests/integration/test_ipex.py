"""Intel's extension for PyTorch as a user has it: `site` installs the stack ipex-2.8-gloo, `train` uses it.

The stack is that of the catalogue, of the real wheels. STAND-IN, where no index has torch's CPU build: torch's CUDA
build without CUDA (support/cuda_stubs.py), which computes the same on a CPU. oneCCL is tested where a variable names a
wheel of its bindings.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout, cuda_stubs, playbooks
from support.at_length import only_at_length

pytestmark = only_at_length(
    "it installs the stack ipex-2.8-gloo, of which it downloads 1 GB where that is not in .cache"
)

NAME = "ipex-2.8-gloo"
CATALOGUE = yaml.safe_load((checkout.ROOT / "roles/torch_stack/vars/stacks.yml").read_text())
STACK = CATALOGUE["__torch_stack_catalogue"][NAME]
TORCH = STACK["packages"]["torch"]
VARIABLE = "AMX_CLUSTER_ONECCL_WHEEL"
# Wheels and the cluster stay: 5 GB that the next run finds.
CACHE = checkout.ROOT / ".cache/ipex"
BY_ACCELERATE = "IPEX: ipex.optimize by accelerate."
# What MODULES prints of two ranks.
IN_BOTH: list[Any] = [
    [rank, when, names] for rank in (0, 1) for when, names in (("after", {"_IPEXLinear": 14}), ("before", {}))
]
# Prints the modules of IPEX in the model of each rank before and after the training by the script that it runs, and by
# what ranks communicated.
MODULES = f"""
import collections, json, os, runpy, torch
from transformers import TrainerCallback, trainer
def tell(*words):  # at once: the launcher mixes what ranks write in pieces
    os.write(1, " ".join([*words, os.linesep]).encode())
class Modules(TrainerCallback):
    def seen(self, when, model):
        names = [type(module).__name__ for module in model.modules() if "intel_extension" in type(module).__module__]
        tell("MODULES", json.dumps([int(os.environ["RANK"]), when, collections.Counter(names)]))
    def on_init_end(self, *_, model, **__):
        self.seen("before", model)
    def on_train_end(self, *_, model, **__):
        self.seen("after", model)
        tell("BACKEND", torch.distributed.get_backend())
trainer.DEFAULT_CALLBACKS.append(Modules)
runpy.run_path("{checkout.ROOT}/jobs/scripts/train_text.py", run_name="__main__")
"""


def download(directory: Path, requirement: str, *options: str) -> tuple[list[Path], str]:
    """Download a wheel for this Python; return it, or none and what pip said."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=0"]
    command += ["--dest", str(directory), *options, requirement]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(directory.glob("*.whl")), ran.stderr.strip()


def torch_wheel(directory: Path) -> None:
    """Have the wheel of torch's CPU build in a directory; skip the tests where there is none."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python not in STACK["python"]:
        pytest.skip(f"{NAME} is for Python {', '.join(STACK['python'])}, and this is {python}")
    tag = f"cp{python.replace('.', '')}"
    if any(directory.glob(f"torch-{TORCH}-{tag}-*_{platform.machine()}.whl")):
        return
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        indexes = [f"--extra-index-url={url}" for url in STACK["index_urls"]]
        wheels, _error = download(Path(scratch), f"torch=={TORCH}", *indexes)
        if wheels:
            wheels[0].rename(directory / wheels[0].name)
            return
        missing = [program for program in ("gcc", "nm", "readelf") if not shutil.which(program)]
        if missing:
            pytest.skip(f"no index has torch {TORCH}, and its CUDA build needs {', '.join(missing)}")
        wheels, error = download(Path(scratch), f"torch=={TORCH.partition('+')[0]}")
        if not wheels:
            pytest.skip(f"no index has a wheel of torch {TORCH} or its CUDA build: {error.splitlines()[-1:]}")
        cuda_stubs.cpu_wheel(wheels[0], directory)


@pytest.fixture(scope="module")
def cluster() -> Path:
    """A cluster of this machine alone with the stack."""
    return installed(CACHE, NAME)


@pytest.fixture(scope="module")
def cluster_of_oneccl() -> Path:
    """The same with oneCCL, by a wheel that tools/build_oneccl.py has made."""
    wheels = [Path(wheel) for wheel in os.environ.get(VARIABLE, "").split(":") if wheel]
    if not wheels:
        pytest.skip(
            f"no package index has oneccl-bind-pt: set {VARIABLE} to a wheel that tools/build_oneccl.py has made"
        )
    made = CACHE / "cache/oneccl"
    made.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        shutil.copy(wheel, made)
    return installed(CACHE / "oneccl", "ipex-2.8")


def installed(directory: Path, stack: str) -> Path:
    """Install a stack on this machine alone, with an inventory in a directory; return that."""
    torch_wheel(CACHE / "wheels")
    shutil.rmtree(directory / "prefix/jobs", ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    playbooks.write_inventory(
        directory,
        directory / "prefix",
        {"localhost": playbooks.LOCAL},
        cluster_stack=stack,
        cluster_cache=str(CACHE / "cache"),
        torch_stack_find_links=[str(CACHE / "wheels")],
    )
    run(directory, "site")
    return directory


def run(directory: Path, name: str, *options: str) -> str:
    """Run a playbook, which must succeed, and return its output as one line."""
    ran = playbooks.play(directory, checkout.ROOT / f"playbooks/{name}.yml", *options)
    assert ran.returncode == 0, ran.stdout
    return " ".join(ran.stdout.split())


def train(directory: Path, job: str, **override: Any) -> tuple[str, dict[str, Any]]:
    """Train a job in bf16; return what the playbook printed, and the job's results."""
    changes = {"precision": "bf16", "reserved_cores": 0, **override}
    output = run(directory, "train", "-e", json.dumps({"amx_job": job, "amx_override": changes}))
    results: dict[str, Any] = json.loads((directory / f"prefix/jobs/{override['name']}/results.json").read_text())
    assert results["ranks"] == override["ranks_per_node"]
    return output, results


def write_seen(directory: Path) -> None:
    """Write seen.yml, which is jobs/smoke.yml with MODULES."""
    (directory / "modules.py").write_text(MODULES)
    fields = yaml.safe_load((checkout.ROOT / "jobs/smoke.yml").read_text())
    fields["prepare"]["script"] = str(checkout.ROOT / "jobs/scripts/generated_pairs.py")
    (directory / "seen.yml").write_text(yaml.safe_dump({**fields, "script": "modules.py"}))


def modules(directory: Path, job: str) -> list[Any]:
    """Return what MODULES has printed in a job: [rank, when, {module of IPEX: how often}], sorted."""
    log = (directory / f"prefix/jobs/{job}/log").read_text()
    return sorted(json.loads(line) for line in re.findall(r"MODULES (\[.*\])", log))


@pytest.mark.skipif("avx512bw" not in Path("/proc/cpuinfo").read_text(), reason="IPEX refuses bf16 without AVX-512")
def test_a_shipped_job_has_ipex_where_it_trains(cluster: Path) -> None:
    job = checkout.ROOT / "jobs/smoke.yml"
    output, smoke = train(cluster, str(job), name="smoke", ranks_per_node=1, measure={"profile": 5})
    assert BY_ACCELERATE in output
    operations = [row["name"] for row in smoke["measured"]["profile"]["hosts"][0]["operations"]]
    assert "torch_ipex::ipex_linear" in operations, operations
    assert smoke["metrics"]["eval_accuracy"] == pytest.approx(1.0, abs=0.02)

    # Two ranks read the weights that it has saved, and go on with them; then with weights of their own.
    write_seen(cluster)
    learnt = {"from_scratch": False, "model_name_or_path": str(cluster / "prefix/jobs/smoke/output"), "max_steps": 8}
    output, seen = train(cluster, "seen.yml", name="seen", ranks_per_node=2, launcher="torchrun", args=learnt)
    assert BY_ACCELERATE in output
    assert modules(cluster, "seen") == IN_BOTH
    assert seen["metrics"]["eval_before_accuracy"] == pytest.approx(1.0, abs=0.02)

    # Linear layers that keep their first weights end at an accuracy far below (and a loss of 0.17 instead of 0.04).
    _output, two = train(cluster, "seen.yml", name="two", ranks_per_node=2)
    assert modules(cluster, "two") == IN_BOTH
    assert two["metrics"]["eval_accuracy"] == pytest.approx(1.0, abs=0.02)
    assert two["metrics"]["train_loss"] < 2 * smoke["metrics"]["train_loss"]


@pytest.mark.skipif("avx512bw" not in Path("/proc/cpuinfo").read_text(), reason="IPEX refuses bf16 without AVX-512")
@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_ranks_with_ipex_over_oneccl(cluster_of_oneccl: Path, launcher: str) -> None:
    """Two ranks, each with a core that communicates where there are surely four cores."""
    cores = "auto" if len(os.sched_getaffinity(0)) >= 8 else 0
    write_seen(cluster_of_oneccl)
    output, results = train(
        cluster_of_oneccl, "seen.yml", name=launcher, ranks_per_node=2, launcher=launcher, comm_cores=cores
    )
    assert BY_ACCELERATE in output
    assert results["backend"] == "ccl"
    log = (cluster_of_oneccl / f"prefix/jobs/{launcher}/log").read_text()
    assert re.findall(r"BACKEND (\w+)", log) == ["ccl", "ccl"]
    assert modules(cluster_of_oneccl, launcher) == IN_BOTH
    assert results["metrics"]["eval_accuracy"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.skipif("avx512bw" not in Path("/proc/cpuinfo").read_text(), reason="IPEX refuses bf16 without AVX-512")
def test_the_engine_ipex_answers_as_pytorch_does(cluster: Path) -> None:
    models = ["distilbert-small", "llama-1b-small"]
    wanted: dict[str, Any] = {"models": models, "precisions": ["fp32", "bf16"], "engines": ["eager", "ipex"]}
    wanted |= {"batch_sizes": [2], "sequence_lengths": [32], "new_tokens": 4, "instances_per_node": [1]}
    wanted |= {"seconds": 0.5, "warmup": 1, "budget": 20, "agreement": 0}
    (cluster / "speed.yml").write_text(yaml.safe_dump({"name": "speed", "kind": "inference", "inference": wanted}))
    run(cluster, "infer", "-e", json.dumps({"amx_job": "speed.yml", "amx_again": True}))
    document = json.loads((cluster / "results/speed-inference/inference.json").read_text())
    cells = {(cell["model"], cell["precision"], cell["engine"]): cell for cell in document["cells"]}
    assert len(cells) == 8
    assert {cell["state"] for cell in cells.values()} == {"measured"}, cells
    equal = {key: cell["agreement"]["equal"] for key, cell in cells.items() if cell["agreement"]}
    for model in models:
        assert equal[model, "fp32", "ipex"] == 1
        assert equal[model, "bf16", "ipex"] >= equal[model, "bf16", "eager"] - 0.1
