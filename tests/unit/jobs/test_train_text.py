from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from support.checkout import ROOT
from support.scripts import load


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load(ROOT / "jobs/scripts/train_text.py")


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "f1"),
    [
        ("The Xeon servers", "xeon servers.", 1.0, 1.0),
        ("an old Xeon", "Xeon server", 0.0, 0.5),
        ("to be or not to be", "to be", 0.0, 0.5),
        ("cat", "dog", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("the", "", 1.0, 1.0),
        ("", "dog", 0.0, 0.0),
    ],
)
def test_answers_compare_as_in_squad(script: ModuleType, prediction: str, answer: str, exact: float, f1: float) -> None:
    assert script.exact_match(prediction, answer) == exact
    assert script.answer_f1(prediction, answer) == pytest.approx(f1)


def test_qa_metrics_take_the_best_answer_in_percent(script: ModuleType) -> None:
    predictions = {"1": "red house", "2": "blue", "3": "anything"}
    answers = {"1": ["house", "the red house"], "2": ["green", "blue sky"], "3": []}
    metrics = script.qa_metrics(predictions, answers)
    assert metrics == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3 + 0) / 3})


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [("sentence", 4, (3, 3)), ("bar sentence", 0, (2, 3)), ("x", 50, None), ("23 a", 17, None)],
)
def test_locate(script: ModuleType, text: str, first: int, expected: tuple[int, int] | None) -> None:
    offsets = [None, None, (0, 3), (4, 12), (13, 19)]
    assert script.locate({"text": [text], "answer_start": [first]}, offsets) == expected


def test_locate_without_answer(script: ModuleType) -> None:
    assert script.locate({"text": [], "answer_start": []}, [(0, 3)]) is None


def test_nothing_named(script: ModuleType) -> None:
    with pytest.raises(script.InputError, match=r"^one of --task_name, --dataset_name and --train_file is needed$"):
        script.load_splits(script.Arguments(model_name_or_path="any"))


def test_unknown_glue_task(script: ModuleType) -> None:
    error = "--task_name sst: expected one of cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli"
    with pytest.raises(script.InputError, match=f"^{re.escape(error)}$"):
        script.load_splits(script.Arguments(model_name_or_path="any", task_name="sst"))


LABELS, PREDICTIONS = [1, 1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("task", "predictions", "labels", "expected"),
    [
        ("sst2", PREDICTIONS, LABELS, {"accuracy": 0.75}),
        ("mrpc", PREDICTIONS, LABELS, {"accuracy": 0.75, "f1": 0.8}),
        ("cola", PREDICTIONS, LABELS, {"matthews_correlation": (4 * 2 - 1 * 1) / (5 * 5 * 3 * 3) ** 0.5}),
        ("cola", [1, 1, 1], [0, 1, 1], {"matthews_correlation": 0.0}),
        # The last two as scipy.stats 1.17 has them.
        ("stsb", [1.0, 2.0, 4.0], [2.0, 4.0, 5.0], {"pearson": 0.9285714285714286, "spearmanr": 1.0}),
        ("regression", [1.0, 2.0, 2.0, 3.0], [4.0, 1.0, 0.0, 1.0], {"pearson": -0.7071067812, "spearmanr": -0.5}),
        ("", [0, 1, 2], [0, 1, 1], {"accuracy": 2 / 3, "f1": 5 / 9}),
        ("", [0, 0], [1, 1], {"accuracy": 0.0, "f1": 0.0}),
    ],
)
def test_glue_metrics(
    script: ModuleType, task: str, predictions: list[Any], labels: list[Any], expected: dict[str, float]
) -> None:
    assert script.classification_metrics(task, predictions, labels) == pytest.approx(expected)


def test_equal_values_share_their_mean_rank(script: ModuleType) -> None:
    assert script.ranking([3.0, 1.0, 3.0, 2.0, 3.0]) == [4.0, 1.0, 4.0, 2.0, 4.0]


def test_a_message_with_half_of_a_character_is_printed(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script.show_failure("train_text: \ud83d")
    assert capsys.readouterr().err == "train_text: \\ud83d\n"
