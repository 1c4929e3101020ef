"""Models are what their files say: their weights, or a refusal; and they are asked as they were trained."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.checkout import ROOT

PATHS = (".collections", "jobs/scripts", "runtime", "tests", "tests/integration/inference")


def run(environment: Path, script: str, folder: Path) -> Any:
    ran = subprocess.run(
        [f"{environment}/bin/python", "-B", ROOT / "tests/integration/inference" / script, folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(f"{ROOT}/{path}" for path in PATHS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def loaded(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(environment, "model_files.py", tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def asked(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(environment, "asked.py", tmp_path_factory.mktemp("asked"))


def test_what_wrappers_put_into_names_is_taken_off(loaded: Any) -> None:
    wrapped = ("ddp", "compiled ddp", "fsdp in the middle", "compiled inner model", "compiled layers", "pickled ddp")
    assert {name: loaded[name] for name in (*wrapped, "decoder")} == dict.fromkeys((*wrapped, "decoder"), "same")


def test_tied_weights_are_not_missing(loaded: Any) -> None:
    assert loaded["tied"] == "same"


def test_only_the_head_of_a_new_task_may_be_new(loaded: Any) -> None:
    head = "classifier.bias, classifier.weight"
    assert loaded["head of a new task"] == f"new: bert.pooler.dense.bias, bert.pooler.dense.weight, {head}"
    assert loaded["more labels"] == f"new: {head}"
    lacks = f"model M lacks 2 of its weights, which would be random: {head}"
    assert loaded["no head"] == f"{lacks}. Train it for this task first"
    assert (
        loaded["no head that it says it has"]
        == f"{lacks}. Save the whole model again by save_pretrained(), or copy it again"
    )
    assert loaded["head of another task"].endswith("Train it for this task first")
    assert "classifier.bias of (2,), not (5,)" in loaded["more labels, asked"]
    assert loaded["no layer"].startswith("model M lacks 4 of its weights, which would be random: bert.encoder.layer.0")
    assert "word_embeddings.weight of (60, 32), not (70, 32)" in loaded["another vocabulary"]


def test_weights_of_other_names_are_refused(loaded: Any) -> None:
    assert loaded["unmerged"].endswith("An adapter was not merged: save what merge_and_unload() returns")
    assert "Its files have others: student.bert.embeddings.LayerNorm.bias" in loaded["unknown wrapper"]
    assert loaded["adapter"].startswith("model M is an adapter (adapter_config.json)")


def test_weights_that_would_be_left_out_are_refused(loaded: Any) -> None:
    assert "it has bert.embeddings.LayerNorm.bias and module." in loaded["two values of a weight"]
    assert loaded["fewer layers"].startswith(
        "model M has weights of layers that its config.json does not have: bert.encoder.layer.2.attention.output"
    )
    assert loaded["further weights"] == loaded["fp32, and config.json says bf16"] == "same"


def test_quantized_weights_are_not_taken_for_numbers(loaded: Any) -> None:
    """Their scales are elsewhere: without them, a model answers wrongly."""
    weight = "bert.encoder.layer.0.attention.self.query.weight"
    types = {"int8": ("I8", "torch.int8"), "float8_e4m3fn": ("F8_E4M3", "torch.float8_e4m3fn")}
    types["int64"] = ("I64", "torch.int64")
    for name, (stored, pickled) in types.items():
        assert f"{weight} is {stored}. " in loaded[f"stored as torch.{name}"]
        assert f"{weight} is {pickled}. " in loaded[f"pickled as torch.{name}"]
    assert f"{weight} is I8. " in loaded["base stored as int8"]


def test_types_are_those_of_what_is_loaded(loaded: Any) -> None:
    assert loaded["other files beside its own"] == loaded["pickled with a number"] == "same"


def test_models_without_a_mask_see_no_padding(loaded: Any) -> None:
    assert loaded["without padding"] == {"shapes": [[1, 1], [2, 2], [1, 2], [1, 3]], "lengths": [2, 3, 2, 1, 2]}


def test_files_that_hold_no_weights_give_one_message(loaded: Any) -> None:
    for name in ("empty", "page", "half"):
        assert loaded[f"{name} file"].startswith("model M cannot be read: Error while deserializing header")
        assert loaded[f"{name} pickle"].startswith("model M cannot be read: its weights are no file of PyTorch")


def test_a_decoder_is_asked_with_the_tokens_before_the_answers_of_its_training(asked: Any) -> None:
    assert asked["tokens"] == {"plain": [], "begins": [], "begins and ends": []}
    by_template, (messages, _broken) = asked["of chats"][0][0], asked["messages"]
    assert messages == [by_template, by_template]
    assert asked["as a chat"][0] == [by_template]
    assert asked["chats as texts"] == asked["alone"]
    assert asked["no template"].endswith("has no chat template: set chat_template: false to ask without it")


def test_the_end_of_a_prompt_counts_and_what_was_cut_is_told(asked: Any) -> None:
    (short, cut, _other), broken = asked["of texts"]
    assert [short] == asked["alone"][0]
    assert cut.pop("prompt_tokens_cut") > 0
    assert [cut] == asked["its end"][0]
    assert list(broken) == ["2"]
    assert broken["2"] == "has no text in the column prompt"


def test_a_row_that_is_too_long_is_left_out_and_others_are_answered(asked: Any) -> None:
    predicted, broken = asked["past its positions"]
    assert predicted == asked["alone"][0]
    assert "it has 30 tokens, and with 4 new ones more than the 32 positions of the model" in broken["1"]
    assert "within the chat template, and sequence_length is 24" in asked["of chats"][1]["1"]
    assert asked["no room"] == "small has 32 positions, and new_tokens is 32"


def test_an_adapter_is_merged_into_the_weights_as_they_came(asked: Any) -> None:
    assert asked["merged"]["kept"] == 0
    assert asked["merged"]["error"] < 1e-3
