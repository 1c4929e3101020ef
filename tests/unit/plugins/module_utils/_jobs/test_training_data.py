"""What is refused of a job with the collection's own scripts before anything is copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file as jobs
from ansible_collections.amx.cluster.plugins.module_utils._jobs import training_data
from support.checkout import ROOT

FILES = {"train_file": "datasets/own/train.csv", "validation_file": "datasets/own/validation.csv"}


def problems(path: Path, script: str = "train_text.py", at: str = "control", **args: Any) -> list[str]:
    data = {"own": {"directory": str(path), "at": at}}
    read = jobs.parse({"name": "mine", "script": script, "data": data, "args": args}, ROOT / "jobs/scripts/mine.yml")
    return training_data.problems(read)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for name in ("train.csv", "validation.csv"):
        (tmp_path / name).write_text("text,label\na,x\nb,y\n")
    return tmp_path


@pytest.mark.slow
def test_a_job_that_is_right(own: Path) -> None:
    assert problems(own, **FILES, num_train_epochs=2, max_seq_length=64) == []
    assert problems(own, **FILES, learnin_rate=1e-4) != []


def test_rows_are_checked(own: Path) -> None:
    (own / "validation.csv").write_text("text,label\na,x\nb,\n")
    assert problems(own, **FILES) == [f"args: {own}/validation.csv, row 2 (line 3): has no label"]
    assert problems(own, **FILES, max_eval_samples=1) == []
    assert problems(own, at="head", **FILES) == []


@pytest.mark.slow
def test_texts_that_belong_together(own: Path) -> None:
    for name in ("train.csv", "validation.csv"):
        (own / name).write_text("query,document\na,b\nc,d\n")
    assert problems(own, "train_embeddings.py", **FILES, reranker=True) == []
    assert problems(own, "train_embeddings.py", **FILES) == []
    distinct = {**FILES, "batch_sampler": "no_duplicates"}
    assert problems(own, "train_embeddings.py", **distinct, per_device_train_batch_size=2) == []
    (line,) = problems(own, "train_embeddings.py", **distinct)
    assert line.startswith("args: per_device_train_batch_size is 8, and of 2 texts that differ no batch has one twice")
    (line,) = problems(own, "train_embeddings.py", **FILES, per_device_train_batch_size=1)
    assert line.startswith("args: per_device_train_batch_size is 1: a batch needs")
    (own / "train.csv").write_text("query,document\na,b\n,d\n")
    (line,) = problems(own, "train_embeddings.py", **FILES)
    assert line.startswith(f"args: {own}/train.csv, row 2 (line 3): has no text")


def test_files_that_are_missing(own: Path) -> None:
    (own / "train.csv").unlink()
    assert problems(own, **FILES) == [f"args: train_file: there is no file {own}/train.csv"]
    missing = ["args: there are no validation data: set validation_file, or do_train to train without them"]
    train = {"train_file": "datasets/own/validation.csv"}
    assert problems(own, **train) == missing
    assert problems(own, **train, do_train=True) == []
    assert problems(own, "train_decoder.py", **train, validation_split_percentage=2) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_seq_lenght", "max_seq_length"),
        ("validation_fle", "validation_file"),
        ("num_train_epoch", "num_train_epochs"),
        ("per_device_train_batchsize", "per_device_train_batch_size"),
    ],
)
def test_misspelt_arguments(own: Path, name: str, meant: str) -> None:
    message = f"args: {name}: the script has no such argument: did you mean {meant}?"
    given: dict[str, Any] = {name: 1}
    assert problems(own, **FILES, **given) == [message]


def test_other_arguments_are_left_to_the_script(own: Path) -> None:
    others = ("per_gpu_train_batch_size", "logging_strategy", "eval_delay", "run_name", "eval_on_start", "label_names")
    given: dict[str, Any] = dict.fromkeys(others, 1)
    assert problems(own, **FILES, **given) == []


def test_scripts_of_others(tmp_path: Path) -> None:
    (tmp_path / "train_text.py").write_text("# mine\n")
    assert problems(tmp_path, str(tmp_path / "train_text.py"), **FILES) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_jobs(path: Path) -> None:
    assert training_data.problems(jobs.load(path)) == []
