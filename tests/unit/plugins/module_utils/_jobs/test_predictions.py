"""Predictions as jobs: which task, columns and setting, what tells two requests apart, and what is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import sentence_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds, predictions
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import INT8, PRECISIONS, Prediction
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_fields import RUN_ONLY
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import JobFileError, parse
from hypothesis import given
from hypothesis import strategies as st

COLUMNS = ["id", "sentence1", "sentence2", "text"]
CLASSIFIER = "text-classification"


def columns(task: str = CLASSIFIER, **more: Any) -> list[str]:
    options = {"given": [], "args": {}, "trained_on": [], "there": COLUMNS, **more}
    return predictions.columns_of(task, where="rows.csv", **options)


def test_columns() -> None:
    assert columns() == ["sentence1", "sentence2"]
    assert columns(trained_on=["text", "label"]) == ["text"]
    assert columns(args={"text_column": "id"}, trained_on=["text"]) == ["id"]
    assert columns(args={"sentence1_key": "id", "sentence2_key": "text"}) == ["id", "text"]
    assert columns(args={"text_column_names": "id,text"}) == ["id", "text"]
    assert columns(given=["text"], args={"text_column": "id"}) == ["text"]
    assert columns("text-generation") == columns("feature-extraction") == ["text"]
    assert columns("text-ranking", given=["text", "id"]) == ["text", "id"]


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        (
            CLASSIFIER,
            {"given": ["title"]},
            "rows.csv has no column title; it has id, sentence1, sentence2, text: correct -e columns",
        ),
        (
            CLASSIFIER,
            {"args": {"text_column": "title"}},
            "rows.csv has no column title, which the model was trained on; it has id, sentence1, sentence2, text: name "
            "the columns to be read with -e columns=A,B",
        ),
        ("question-answering", {}, "rows.csv has no columns for question-answering, question and context; it has"),
        ("question-answering", {"given": ["text"]}, "question-answering reads 2 columns, not 1"),
        ("text-generation", {"given": ["id", "text"]}, "text-generation reads 1 columns, not 2"),
        ("feature-extraction", {"given": ["id", "text"]}, "feature-extraction reads 1 columns, not 2"),
        ("text-ranking", {}, "rows.csv has no columns for text-ranking, query and document; it has"),
        (
            CLASSIFIER,
            {"there": ["text", "predicted_label"]},
            "rows.csv has a column predicted_label already, which the prediction adds: rename it",
        ),
    ],
)
def test_columns_that_are_refused(task: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        columns(task, **more)
    assert message in str(error.value)


def test_tasks() -> None:
    assert predictions.task_of({"architectures": ["BertForSequenceClassification"]}, "", "job demo") == CLASSIFIER
    with pytest.raises(
        ValueError, match=r"job demo is a BertForSequenceClassification, a model for text-class.*not for q"
    ):
        predictions.task_of({"architectures": ["BertForSequenceClassification"]}, "question-answering", "job demo")
    one_label = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    ranker = {**one_label, sentence_models.ENTRY: {"task": "text-ranking"}}
    assert predictions.task_of(one_label, "", "m") == predictions.task_of(ranker, CLASSIFIER, "m") == CLASSIFIER
    assert predictions.task_of(one_label, "text-ranking", "m") == predictions.task_of(ranker, "", "m") == "text-ranking"
    masked = {"architectures": ["BertForMaskedLM"]}
    assert predictions.task_of(masked, "feature-extraction", "m") == "feature-extraction"
    with pytest.raises(ValueError, match="a model for text-classification, and not for text-ranking"):
        predictions.task_of({"architectures": ["BertForSequenceClassification"]}, "text-ranking", "m")
    embedder = {"architectures": ["BertModel"], "vocab_size": 9}
    assert predictions.task_of(embedder, "", "m") == "feature-extraction"
    configs: list[dict[str, Any]] = [
        masked,
        {"architectures": ["ViTModel"]},
        {"architectures": ["T5EncoderModel"], "vocab_size": 9},
        {**embedder, "is_encoder_decoder": True, sentence_models.ENTRY: {"task": "feature-extraction"}},
        {"architectures": ["ResNetForImageClassification"]},
        {"architectures": None},
        {},
    ]
    for config in configs:
        with pytest.raises(ValueError, match="predictions are made by models for text-classification"):
            predictions.task_of(config, "", "job demo")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "setting.yml is no mapping"),
        ({"batchsize": 1}, "setting.yml: batchsize is no setting"),
        ({"precision": "fp8"}, "precision: 'fp8' is not one of fp32, bf16, fp16, int8"),
        ({"batch_size": 0}, "batch_size: 0 is not a whole number of at least 1"),
        ({"batch_size": True}, "batch_size: True is not a whole number"),
        ({"threads_per_instance": "auto"}, "threads_per_instance: 'auto' is not"),
    ],
)
def test_settings_that_are_refused(content: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        predictions.read_setting(content, "setting.yml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("setting", "job", "directory", "other"),
    [
        ({}, "demo", "", ""),
        ({"model": "job:demo"}, "demo", "", ""),
        ({"model": "demo", "source": {"directory": "/opt/amx/jobs/demo/output", "at": "head"}}, "demo", "", ""),
        ({"model": "job:other"}, "demo", "", "job:other"),
        ({"model": "minilm", "source": {"directory": "/models/minilm"}}, "", "/models/minilm", ""),
        ({"model": "minilm", "source": {"directory": "/models/minilm"}}, "", "head:/models/minilm", ""),
        ({"model": "minilm", "source": {"directory": "/models/minilm"}}, "", "/models/bert", "minilm"),
        ({"model": "minilm"}, "", "/models/minilm", ""),
        ({"model": "job:demo"}, "", "/models/minilm", "job:demo"),
    ],
)
def test_settings_of_other_models(setting: dict[str, Any], job: str, directory: str, other: str) -> None:
    assert predictions.other_model(setting, job, directory) == other


def request(**setting: Any) -> dict[str, Any]:
    cell = predictions.cell(setting, CLASSIFIER, "job demo", {"max_seq_length": 32}, {})
    data = {"name": "rows.csv", "sha256": "aaaa"}
    return predictions.compared(data, {"name": "job demo", "sha256": "bbbb"}, ["text"], cell)


def test_what_differs_is_named() -> None:
    before = request()
    assert predictions.differences(before, request()) == []
    assert predictions.differences(before, request(batch_size=4)) == ["batch_size differs: 16, now 4"]
    after = {**request(), "data": {"name": "new.csv", "sha256": "cccc"}, "columns": ["text", "title"]}
    assert predictions.differences(before, after) == [
        "the data differ: rows.csv (SHA-256 aaaa), now new.csv (SHA-256 cccc)",
        "columns differ: text, now text, title",
    ]
    # A file that has another name only is the same data; what is not yet known does not count.
    assert predictions.differences(before, {"data": {"name": "b.csv", "sha256": "aaaa"}}) == []
    assert predictions.differences(before, {"data": {}, "model": {}}) == []


def test_the_digest_is_that_of_request_and_token() -> None:
    assert predictions.digest(request(), "t") == predictions.digest(request(), "t")
    others = {predictions.digest(request(), "u"), predictions.digest(request(batch_size=4), "t")}
    assert predictions.digest(request(), "t") not in others


def test_the_longest_sequence_is_that_of_training() -> None:
    assert request()["sequence_length"] == 32
    assert request(sequence_length=64)["sequence_length"] == 64
    assert predictions.cell({}, CLASSIFIER, "minilm", {}, {})["sequence_length"] == predictions.SEQUENCE_LENGTH
    assert predictions.cell({}, "text-generation", "llama", {}, {})["new_tokens"] == predictions.NEW_TOKENS


def test_a_text_with_an_embedding_is_as_long_as_its_model_says() -> None:
    def length(longest: int, **config: Any) -> Any:
        own = {**config, sentence_models.ENTRY: {"longest": longest}}
        return predictions.cell({}, "feature-extraction", "m", {}, own)["sequence_length"]

    assert (length(256), length(0), length(8192), length(256, max_position_embeddings=64)) == (256, 512, 512, 64)


def test_a_sequence_is_no_longer_than_the_model_takes() -> None:
    roberta = {"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1}
    assert predictions.cell({}, CLASSIFIER, "m", {}, roberta)["sequence_length"] == 64
    assert predictions.cell({}, CLASSIFIER, "m", {"max_length": "32"}, roberta)["sequence_length"] == 32
    with pytest.raises(ValueError, match=r"^m has 64 positions \(config.json\), and the setting sequence_length 65"):
        predictions.cell({"sequence_length": 65}, CLASSIFIER, "m", {}, roberta)
    gpt2 = {"model_type": "gpt2", "n_positions": 128}
    assert predictions.cell({}, "text-generation", "m", {"max_length": 128}, gpt2)["sequence_length"] == 64
    assert predictions.cell({"sequence_length": 128}, "text-generation", "m", {}, gpt2)["sequence_length"] == 128
    with pytest.raises(ValueError, match=r"m has 128 positions .* and the setting new_tokens 128: choose fewer"):
        predictions.cell({"new_tokens": 128}, "text-generation", "m", {}, gpt2)


def requested(cell: dict[str, Any]) -> Prediction:
    return Prediction("1f", "datasets/input/rows.csv", ["text"], ["predicted_label"], 16, ["node0"], cell)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_job_says_in_which_precision_it_runs(tmp_path: Path, precision: str) -> None:
    (tmp_path / "input").mkdir()
    cell = predictions.cell({"precision": precision}, CLASSIFIER, "job demo", {}, {})
    model = {"directory": "/opt/models/1", "at": "head"}
    fields = predictions.job_fields("a-predict", requested(cell), model, {"directory": str(tmp_path)}, {})
    assert parse(fields, tmp_path / "job.yml").precision == precision
    trainer = {"name": "a", "script": "train.py", "precision": precision}
    (tmp_path / "train.py").touch()
    with pytest.raises(JobFileError, match="nothing trains in it") if precision in RUN_ONLY else nullcontext():
        parse(trainer, tmp_path / "job.yml")


def test_int8_weights_are_run_in_int8() -> None:
    config = {INT8: {"version": 1, "inputs": "static"}}
    cell = predictions.cell({"batch_size": 4}, CLASSIFIER, "job demo-int8", {}, config)
    assert (cell["precision"], cell["int8"], cell["batch_size"]) == ("int8", "static", 4)
    with pytest.raises(ValueError, match=r"^job demo-int8 has weights of int8 static, and the setting precision bf16$"):
        predictions.cell({"precision": "bf16"}, CLASSIFIER, "job demo-int8", {}, config)


@given(count=st.integers(1, 10**8), batch_size=st.integers(1, 512))
def test_chunks_are_whole_batches(count: int, batch_size: int) -> None:
    found = predictions.chunk_rows(count, batch_size)
    assert found % batch_size == 0
    assert found <= max(batch_size, predictions.MOST_ROWS)


def test_the_job_is_an_ordinary_job_of_independent_ranks(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    cell = predictions.cell({}, CLASSIFIER, "job demo", {}, {})
    model = {"directory": "/opt/models/1", "at": "head"}
    setting = {"instances_per_node": 4}
    fields = predictions.job_fields("a-predict", requested(cell), model, {"directory": str(tmp_path)}, setting)
    job = parse(json.loads(json.dumps(fields)), tmp_path / "job.yml")
    assert (job.kind, job.comm_cores, job.ranks_per_node) == (kinds.RANKS.name, 0, 4)
    assert job.restarts > 0
    assert job.min_hosts == 1
    assert Prediction.from_json(job.request) == requested(cell)


def test_names() -> None:
    assert predictions.job_name("demo") == "demo-predict"
    with pytest.raises(ValueError, match="choose one with -e predict_name=NAME"):
        predictions.job_name("My Model")
