"""A decoder that the Trainer shards over two hosts with disks of their own, as far as the model that is left.

Real ranks, FSDP2, observer and supervisor; what stands in for the hosts is in tests/support/separate_hosts.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints, directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints
from support import real_jobs
from support.at_length import only_at_length
from support.checkout import ROOT
from support.separate_hosts import Hosts, needs_mounts

SCRIPT = ROOT / "tests/integration/zoo/decoder.py"
STEPS = 6


pytestmark = needs_mounts


def job(ranks: int) -> dict[str, Any]:
    args = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 8 // ranks,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "report_to": "none",
    }
    return {"kind": "trainer", "args": args, "checkpoints": Checkpoints(2, 2)}


def start(hosts: Hosts, ranks: int = 2, **fields: Any) -> None:
    hosts.start(SCRIPT, **job(ranks), **fields)


def succeeded(hosts: Hosts) -> dict[str, Any]:
    status, log = hosts.ended()
    assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
    return hosts.result()


def weights(folder: Path, environment: Path) -> dict[str, float]:
    """Load the model that is left as its users do; return the sum of each of its parameters."""
    script = (
        "import json, sys; from transformers import AutoModelForCausalLM\n"
        "model, found = AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)\n"
        "assert type(model).__name__ == 'LlamaForCausalLM' and not any(found.values()), found\n"
        "print(json.dumps({name: part.double().sum().item() for name, part in model.named_parameters()}))"
    )
    command = [f"{environment}/bin/python", "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def unsharded(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """What the same script reports and leaves without sharding."""
    hosts = Hosts(tmp_path_factory.mktemp("unsharded"), environment)
    start(hosts)
    return succeeded(hosts), weights(hosts.folder / "output", environment)


@pytest.mark.parametrize(
    "sharding", ["full", pytest.param("optimizer", marks=only_at_length("the same with another argument"))]
)
def test_a_sharded_model(
    tmp_path: Path, environment: Path, unsharded: tuple[dict[str, Any], dict[str, float]], sharding: str
) -> None:
    hosts = Hosts(tmp_path, environment)
    start(hosts, sharding=sharding)
    judge(succeeded(hosts), hosts.folder / "output", environment, unsharded)
    for place in hosts.places.values():
        assert sorted(path.name for path in checkpoints.directories(place / "output")) == [
            "checkpoint-4",
            "checkpoint-6",
        ]


def test_a_model_that_is_sharded_with_mpi(
    tmp_path: Path, environment: Path, unsharded: tuple[dict[str, Any], dict[str, float]]
) -> None:
    """Two ranks of one host, as the stand-in for mpirun has no MPI."""
    folder = tmp_path / "jobs/demo"
    folder.mkdir(parents=True)
    real_jobs.start({"localhost": folder}, SCRIPT, environment, [{}, {}], sharding="full", backend="mpi", **job(2))
    status, log = real_jobs.ended(folder)
    assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
    judge(json.loads((folder / "output/all_results.json").read_text()), folder / "output", environment, unsharded)


def judge(
    result: dict[str, Any], output: Path, environment: Path, unsharded: tuple[dict[str, Any], dict[str, float]]
) -> None:
    """Compare what a sharded run reports and leaves with what the other one does."""
    assert result["losses"] == pytest.approx(unsharded[0]["losses"], rel=1e-5)
    assert result["evaluated"] == pytest.approx(unsharded[0]["evaluated"], rel=1e-5)
    assert result["own_parameters"] < 0.6 * unsharded[0]["own_parameters"]
    assert weights(output, environment) == pytest.approx(unsharded[1], abs=1e-3)


def test_shards_are_gone_on_with_by_one_rank(
    tmp_path: Path, environment: Path, unsharded: tuple[dict[str, Any], dict[str, float]]
) -> None:
    """A rank is killed after a checkpoint of two; both go on, and then one of them alone from the same checkpoint."""
    hosts = Hosts(tmp_path, environment)
    start(hosts, sharding="full", restarts=1, env={"DIES_AT": "5"})
    result = succeeded(hosts)
    status, _log = hosts.ended()
    assert [attempt["from"] for attempt in status["attempts"]] == ["the beginning", "checkpoint-4"]
    assert result["losses"] == pytest.approx(unsharded[0]["losses"], rel=1e-5)
    earlier = hosts.folder.with_name("earlier")
    hosts.folder.rename(earlier)
    shutil.rmtree(earlier / "output/checkpoint-6")
    directory.create(hosts.folder, {}, {}, checkpoints.directories(earlier / "output"))
    del hosts.places["node1"]
    start(hosts, ranks=1, sharding="full")
    alone = succeeded(hosts)
    assert (alone["ranks"], hosts.ended()[0]["attempts"][0]["from"]) == (1, "checkpoint-4")
    assert alone["losses"] == pytest.approx(unsharded[0]["losses"], rel=1e-4)
    assert weights(hosts.folder / "output", environment) == pytest.approx(unsharded[1], abs=1e-3)


@only_at_length("a model of 200 MiB, so that its parts can be told from the libraries")
def test_a_sharded_model_needs_less_memory(tmp_path: Path, environment: Path) -> None:
    most = {}
    for sharding in ("none", "full"):
        folder = tmp_path / sharding
        folder.mkdir()
        hosts = Hosts(folder, environment)
        start(hosts, sharding=sharding, env={"HIDDEN": "768", "LAYERS": "10"})
        most[sharding] = succeeded(hosts)["peak_mib"]
    assert most["full"] < 0.85 * most["none"], most


@only_at_length("two ranks with nine architectures")
def test_encoders_are_sharded(tmp_path: Path, environment: Path) -> None:
    reports = {}
    for sharding in ("none", "full"):
        folder = tmp_path / sharding / "jobs/demo"
        folder.mkdir(parents=True)
        script = SCRIPT.with_name("encoders.py")
        fields = {**job(2), "checkpoints": None, "sharding": sharding, "backend": "mpi", "precision": "fp32"}
        fields["args"]["save_strategy"] = "no"
        real_jobs.start({"localhost": folder}, script, environment, [{}, {}], **fields)
        status, log = real_jobs.ended(folder)
        assert status["state"] == "succeeded", f"{status['reason']}\n{log}"
        reports[sharding] = json.loads((folder / "output/all_results.json").read_text())
    for name, sharded in reports["full"].items():
        assert sharded["own"] < 0.6, name
        assert sharded["losses"] == pytest.approx(reports["none"][name]["losses"], rel=1e-4), name
        assert sharded["evaluated"] == pytest.approx(reports["none"][name]["evaluated"], rel=1e-4), name
