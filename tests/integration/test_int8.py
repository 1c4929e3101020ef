"""A trained model in int8: made and compared by jobs/int8.yml, run by predict.yml; and what one layer computes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest
from support import checkout, playbooks
from support.local_cluster import installed_here

RUNTIME = checkout.ROOT / "runtime"


def run(environment: Path, script: str, *words: str) -> str:
    path = checkout.importable(RUNTIME, checkout.ROOT / "tests/integration/inference")
    ran = subprocess.run(
        [f"{environment}/bin/python", "-B", script, *words],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def trained(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained")
    run(environment, f"{checkout.ROOT}/tests/integration/inference/train_small.py", str(place))
    return place


def play(folder: Path, playbook: str, **extra: object) -> None:
    done = playbooks.play(folder, checkout.ROOT / "playbooks" / playbook, "-e", json.dumps(extra))
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.parametrize("inputs", ["dynamic", "static"])
def test_a_trained_model_is_quantized_saved_and_predicts(trained: Path, tmp_path: Path, inputs: str) -> None:
    installed_here(tmp_path)
    sources = {
        "models": {"trained": {"directory": str(trained / "distilbert"), "at": "head"}},
        "data": {"own": {"directory": str(trained), "at": "head"}},
    }
    args = {
        "model_name_or_path": "models/trained",
        "validation_file": "datasets/own/rows.csv",
        "inputs": inputs,
        "max_seq_length": 32,
        "emulation": True,
    }
    override = {**sources, "args": args, "name": "small-int8", "wait": True}
    play(tmp_path, "train.yml", job=str(checkout.ROOT / "jobs/int8.yml"), override=override)
    output = tmp_path / "prefix/jobs/small-int8/output"
    metrics = json.loads((output / "all_results.json").read_text())
    assert metrics["eval_samples"] == 400
    assert metrics["fp32_eval_accuracy"] > 0.95, "the model learned nothing, so that nothing is compared"
    assert metrics["eval_accuracy"] >= metrics["fp32_eval_accuracy"] - 0.02
    assert metrics["eval_agreement"] >= 0.98
    assert not (output / "model.safetensors").exists(), "transformers would take int8 weights for those of fp32"

    request = {"job": "small-int8", "data": str(trained / "rows.csv"), "setting": {"emulation": True}}
    play(tmp_path, "predict.yml", **request, override={"ranks_per_node": 1, "wait": True})
    with (tmp_path / "results/small-int8-predict/predictions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    right = sum(row["predicted_label"] == row["label"] for row in rows)
    # Rounding may move a row that lies between the labels.
    assert right / 400 == pytest.approx(metrics["eval_accuracy"], abs=0.003)
    told = json.loads((tmp_path / "results/small-int8-predict/prediction.json").read_text())["request"]
    assert (told["precision"], told["int8"]) == ("int8", inputs)


def test_layers_compute_what_those_of_fp32_do(environment: Path) -> None:
    """Linear layers and convolutions, with ranges of each token and of calibration, in fp32 and bf16; rows alone."""
    assert run(environment, f"{checkout.ROOT}/tests/integration/inference/int8_layers.py").split() == ["right"] * 14


def test_no_row_changes_the_answer_to_another(environment: Path, trained: Path) -> None:
    """Alone and in a batch, in fp32, bf16 and int8, of rows that are long, fail, or have NaN, infinity or no tokens."""
    assert run(environment, f"{checkout.ROOT}/tests/integration/inference/rows_alone.py", str(trained)) == "right\n"
