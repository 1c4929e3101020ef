"""What of a trained job a prediction needs, and the chunks of its earlier starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from amx_cluster.inference import shards
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import sentence_models
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._jobs import prediction_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import CHUNKS, Prediction
from support import runtimes
from support.weights import safetensors


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Return the directory of a job that has trained a model."""
    output = tmp_path / "demo/output"
    (output / "checkpoint-5").mkdir(parents=True)
    (output / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    (output / "model.safetensors").write_bytes(safetensors())
    for name in ("tokenizer.json", "training_args.bin", "all_results.json", "optimizer.pt"):
        (output / name).write_text(name)
    (tmp_path / "demo/data").mkdir()
    (tmp_path / "demo/data/train.csv").write_text('sentence1,"sentence2",label\na,b,1\n')
    job = {"args": {"train_file": "data/train.csv", "max_seq_length": 32}}
    (tmp_path / "demo/job.json").write_text(json.dumps({"job": job}))
    status(tmp_path, "succeeded")
    return tmp_path


@pytest.mark.slow
def test_a_model_of_sentence_transformers_has_files_in_subdirectories(jobs: Path) -> None:
    output = jobs / "demo/output"
    (output / "1_Pooling").mkdir()
    types = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in types]
    (output / "modules.json").write_text(json.dumps(modules))
    (output / "1_Pooling/config.json").write_text('{"pooling_mode": "cls"}')
    found, _is_new = prediction_files.keep(jobs, "demo", jobs / "cache", Record())
    assert found["config"][sentence_models.ENTRY]["pooling"] == ["cls"]
    assert (Path(found["directory"]) / "1_Pooling/config.json").read_text() == '{"pooling_mode": "cls"}'
    (output / "1_Pooling/config.json").write_text('{"pooling_mode": "max"}')
    assert prediction_files.of_directory(output, Record())["sha256"] != found["sha256"]


def status(jobs: Path, state: str, reason: str = "") -> None:
    content = {"job": "demo", "state": state, "reason": reason, "pid": 1}
    (jobs / "demo/status.json").write_text(json.dumps(content))


@pytest.mark.slow
def test_the_model_of_a_job(jobs: Path) -> None:
    found = prediction_files.of_job(jobs, "demo", Record())
    assert found["files"] == ["config.json", "model.safetensors", "tokenizer.json"]
    own = {sentence_models.ENTRY: sentence_models.PLAIN}
    assert found["config"] == {"architectures": ["BertForSequenceClassification"], **own}
    assert found["args"]["max_seq_length"] == 32
    assert found["trained_on"] == ["sentence1", "sentence2", "label"]
    would, is_new = prediction_files.keep(jobs, "demo", jobs / "cache", Record(), dry=True)
    target = Path(would["directory"])
    assert (is_new, target.exists()) == (True, False)
    assert prediction_files.keep(jobs, "demo", jobs / "cache", Record()) == (would, True)
    assert prediction_files.keep(jobs, "demo", jobs / "cache", Record()) == (would, False)
    assert sorted(path.name for path in target.iterdir()) == found["files"]
    # It is as private as the job, and what the job's file becomes in place does not change it.
    assert target.stat().st_mode & 0o777 == 0o700
    with (jobs / "demo/output/model.safetensors").open("r+") as stream:
        stream.write("M")
    assert (target / "model.safetensors").read_bytes() == safetensors()
    (jobs / "demo/output/model.safetensors").write_bytes(safetensors())
    # One that was damaged, or linked by an earlier release, is made again.
    (target / "model.safetensors").write_text("other")
    assert prediction_files.keep(jobs, "demo", jobs / "cache", Record()) == (would, True)
    (target / "model.safetensors").unlink()
    (target / "model.safetensors").hardlink_to(jobs / "demo/output/model.safetensors")
    assert prediction_files.keep(jobs, "demo", jobs / "cache", Record()) == (would, True)
    assert (target / "model.safetensors").stat().st_nlink == 1
    # The job is run again, and its new model is another one.
    (jobs / "demo").rename(jobs / "demo.20260101T000000Z")
    assert (target / "tokenizer.json").read_text() == "tokenizer.json"


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        (
            "failed",
            "out of memory",
            "job demo has not succeeded: it failed: out of memory, so its model is not complete",
        ),
        ("stopped", "", "job demo has not succeeded: it stopped, so its model is not complete"),
        # Its supervisor, process 1, is none.
        ("running", "", "job demo has not succeeded: it lost: its supervisor (process 1) ended without a word"),
    ],
)
def test_a_job_that_has_not_succeeded(jobs: Path, state: str, reason: str, message: str) -> None:
    status(jobs, state, reason)
    with pytest.raises(ValueError) as error:
        prediction_files.of_job(jobs, "demo", Record())
    assert message in str(error.value)


def test_a_job_that_is_missing(jobs: Path) -> None:
    with pytest.raises(
        ValueError, match=r"there is no job none in .*; demo left a model: train it with playbooks/train"
    ):
        prediction_files.of_job(jobs, "none", Record())


@pytest.mark.parametrize(("gone", "missing"), [("config.json", "config.json"), ("model.safetensors", "weights")])
def test_a_job_without_a_model(jobs: Path, gone: str, missing: str) -> None:
    (jobs / "demo/output" / gone).unlink()
    with pytest.raises(ValueError, match=f"job demo left no model: .* has no {missing}"):
        prediction_files.of_job(jobs, "demo", Record())
    with pytest.raises(ValueError, match="there is no directory"):
        prediction_files.of_directory(jobs / "none", Record())


def test_training_data_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text('{"text": "a", "label": 1}\n')
    assert prediction_files.trained_on(tmp_path, {"train_file": "train.json"}) == ["text", "label"]
    assert prediction_files.trained_on(tmp_path, {"train_file": "none.csv"}) == []
    assert prediction_files.trained_on(tmp_path, {}) == []


def start(folder: Path, digest: str, chunks: dict[int, str]) -> None:
    """Leave the job directory of a prediction with some chunks, of these contents."""
    directory = folder / CHUNKS
    directory.mkdir(parents=True)
    for chunk, content in chunks.items():
        shards.write_chunk(directory, chunk, digest, content.encode(), [])
    request = Prediction(digest, "rows.csv", ["text"], ["label"], 4, ["node0"], {})
    (folder / "job.json").write_text(json.dumps({"job": {"request": request.to_json()}}))
    plan = {"environment": sys.prefix, "runtime": str(runtimes.installed())}
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.mark.slow
def test_chunks_of_earlier_starts_are_carried_over(tmp_path: Path) -> None:
    oldest, newest = (tmp_path / f"demo-predict.2026010{day}T000000Z" for day in (1, 2))
    start(oldest, "d1", {0: "old 0", 1: "old 1", 5: "old 5"})
    start(newest, "d1", {1: "new 1", 4: "new 4", 5: "new 5", 6: "new 6"})
    start(tmp_path / "demo-predict.20260103T000000Z", "another", {2: "of another"})
    for chunk in (5, 6):
        path = shards.path_of(newest / CHUNKS, chunk)
        path.write_bytes(path.read_bytes()[:-1])
    folder = tmp_path / "demo-predict"
    start(folder, "d1", {})
    # Of the two that are damaged one has a copy.
    assert prediction_files.carry_over(folder, "d1") == [0, 1, 4, 5]
    assert prediction_files.carry_over(folder, "d1") == [0, 1, 4, 5]
    contents = [shards.read_chunk(shards.path_of(folder / CHUNKS, chunk), "d1")[1] for chunk in (1, 5)]
    assert contents == [b"new 1", b"old 5"]


@pytest.mark.slow
def test_data_on_the_head(tmp_path: Path) -> None:
    """A file alone in a directory by its content, described by the program that predicts."""
    data = tmp_path / "rows.csv"
    data.write_text("id,text\n1,one\n2,two\n")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(sys.executable)
    would = prediction_files.of_data(data, tmp_path, Record(), dry=True)
    assert (would["name"], would["described"], Path(would["directory"]).exists()) == ("rows.csv", {}, False)
    (tmp_path / prediction_files.CACHE).mkdir(parents=True)
    for _again in range(2):
        found = prediction_files.of_data(data, tmp_path, Record())
        assert found["described"]["rows"] == 2
        assert [path.readlink() for path in Path(found["directory"]).iterdir()] == [data]
    data.write_text("id,text\n")
    with pytest.raises(ValueError, match=r"^data: .*rows.csv is empty: .* \(on the head\)$"):
        prediction_files.of_data(data, tmp_path, Record())
    with pytest.raises(ValueError, match=r"^data: there is no file .*none.csv on the head$"):
        prediction_files.of_data(tmp_path / "none.csv", tmp_path, Record())


@pytest.mark.slow
@pytest.mark.parametrize("dry", [True, False])
def test_what_is_on_the_head_is_found_there(jobs: Path, dry: bool) -> None:
    prefix = jobs / "prefix"
    prefix.mkdir()
    (prefix / "jobs").symlink_to(jobs)
    model = f"head:{jobs}/demo/output"
    nothing: dict[str, Any] = {"model": {}, "data": {}, "previous": {}, "adapters": {}}
    assert prediction_files.find(prefix, "x-predict", "", "/model", "/rows.csv", dry=dry) == (nothing, False)
    assert not (prefix / prediction_files.CACHE).exists()
    facts, changed = prediction_files.find(prefix, "x-predict", "", model, "", dry=dry)
    assert (facts["model"]["directory"], facts["data"], changed) == (str(jobs / "demo/output"), {}, True)
    assert _ownership.is_own(prefix / prediction_files.CACHE) is not dry
    trained, changed = prediction_files.find(prefix, "x-predict", "demo", "", "", dry=dry)
    assert (trained["model"]["args"]["max_seq_length"], changed) == (32, True)
    assert prediction_files.find(prefix, "x-predict", "demo", "", "", dry=dry)[1] is dry


def test_the_previous_start_of_a_prediction(tmp_path: Path) -> None:
    assert prediction_files.previous(tmp_path) == {}
    (tmp_path / "status.json").write_text(
        '{"job": "demo", "state": "failed", "started": "2026", "pid": 1, "reason": ""}'
    )
    assert prediction_files.previous(tmp_path) == {"state": "failed", "started": "2026", "digest": ""}
    (tmp_path / "job.json").write_text(json.dumps({"job": {"request": {"digest": "1f"}}}))
    assert prediction_files.previous(tmp_path)["digest"] == "1f"
