"""What the observer says of losses that the Trainer multiplies is what PyTorch computes, on two ranks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.at_length import only_at_length
from support.checkout import ROOT
from support.zoo import Case, run

ARGS = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "max_steps": 1,
    "logging_steps": 1,
    "max_grad_norm": 1e9,
    "report_to": "none",
    "save_strategy": "no",
}


def job(kind: str, **args: object) -> Case:
    """Return a job of which all 32 rows are in the only step of its two ranks."""
    return Case("weights", {"kind": "trainer", "args": {**ARGS, **args}, "stall_seconds": 600, "env": {"KIND": kind}})


def test_a_gradient_that_ranks_and_accumulation_multiply_is_noted(environment: Path, tmp_path: Path) -> None:
    status, log = run(job("bert"), tmp_path, environment)
    assert status["state"] == "succeeded", log
    results = json.loads((tmp_path / "jobs/weights/output/all_results.json").read_text())
    assert results == {"times": pytest.approx(4, rel=1e-3), "mended": pytest.approx(1, rel=1e-3)}
    note = status["notes"][0]
    assert "BertForSequenceClassification are 4 times too large (2 ranks, 2 accumulation steps)" in note
    assert "trainer.model_accepts_loss_kwargs = False" in note


@only_at_length("the gradient of the Trainer as it is drawn at random is compared")
def test_batches_of_other_sizes_are_noted_where_their_rows_weigh_more(environment: Path, tmp_path: Path) -> None:
    status, log = run(job("bert", train_sampling_strategy="batch_rebalance"), tmp_path, environment)
    assert status["state"] == "succeeded", log
    results = json.loads((tmp_path / "jobs/weights/output/all_results.json").read_text())
    assert results["mended"] != pytest.approx(1, rel=5e-3)
    assert "rows in small batches weigh more" in status["notes"][0]


@only_at_length("the gradient of a model with the mean of a batch is compared")
@pytest.mark.parametrize("strategy", ["random", "batch_rebalance"])
def test_a_loss_of_all_items_is_right(environment: Path, tmp_path: Path, strategy: str) -> None:
    status, log = run(job("llama", train_sampling_strategy=strategy), tmp_path, environment)
    assert status["state"] == "succeeded", log
    results = json.loads((tmp_path / "jobs/weights/output/all_results.json").read_text())
    assert results["times"] == pytest.approx(1, rel=1e-3)
    assert not [note for note in status["notes"] if "too large" in note or "weigh" in note]


def test_which_models_ignore_the_items_is_what_they_compute(environment: Path) -> None:
    script = ROOT / "tests/integration/loss_families.py"
    ran = subprocess.run([environment / "bin/python", script, ROOT / "runtime"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    known = {name: tuple(rest) for name, *rest in answers if len(rest) == 2}
    assert len(known) >= 70
    assert {name: said for name, (ignores, said) in known.items() if ignores != said} == {}
