"""What rows must have: each kind of label, target, answer and text that is refused, with its file and row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import row_checks
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import DataError

NUL = "\0"


def tables(path: Path, labels: list[Any], task: str = "auto", name: str = "train.jsonl") -> tuple[str, Any]:
    """Return what training makes of a file with these labels."""
    lines = [json.dumps({"text": f"a {number}", "label": label}) for number, label in enumerate(labels)]
    (path / name).write_text("\n".join(lines))
    found, columns, splits = row_checks.training_tables({"train": path / name}, task)
    assert columns == ("text",)
    return found, splits["train"]


@pytest.mark.parametrize(
    ("labels", "row", "problem"),
    [
        (["a", "", "b"], 2, "has no label"),
        (["a", " \u200b", "b"], 2, "has no label"),
        (["a", None, "b"], 2, "has no label"),
        (["a", ["b"]], 2, 'has the label ["b"], where a text or a number is expected'),
        ([{"a": 1}, "b"], 1, 'has the label {"a": 1}, where a text or a number is expected'),
        (["a", "\ud83d"], 2, "has half of a character in the label"),
        (["a", 1], 2, "has the label 1, a number, and "),
        ([1, "1"], 2, 'has the label "1", a text, and '),
        ([0, 1, True], 3, "has the label true, a true or false, and "),
        (["good", "bad", "good "], 3, "has the label 'good ', and "),
        (["caf\u00e9", "x", "cafe\u0301"], 3, "differ only by blanks"),
        (["1", "0", "nan"], 3, "has the label 'nan', and others are numbers"),
        (["1", "0", "--"], 3, "has the label '--', and others are numbers"),
        (["1.5", "#DIV/0!", "0"], 2, "has the label '#DIV/0!', and others are numbers"),
        (["good", "nan", "bad"], 2, "has the label 'nan', as programs write what is missing"),
        (["good", "bad", "#N/A"], 3, "has the label '#N/A', as programs write what is missing"),
        (["good", "<NA>"], 2, "as programs write what is missing: remove rows without a label, or set task to class"),
        (["good", "NULL", "\\N"], 2, "as programs write what is missing"),
        (["10%", "20.5 %"], 1, "has the label '10%': write decimal numbers with a point and nothing else"),
        (["1,000.5", "12"], 1, "has the label '1,000.5': write decimal numbers with a point"),
        (["1.000,5", "$3.20"], 1, "has the label '1.000,5': write decimal numbers with a point"),
        (["3", "1\u202f000", "\u22121.5"], 2, "write decimal numbers with a point"),
        (["1.5", "0", "N/A"], 3, "has the label 'N/A', and others are numbers"),
        ([1.0, 0.0], 1, "has the label 1.0, and all are whole numbers: set task to classification"),
        (["1", "2.0"], 2, "has the label 2.0, and all are whole numbers: set task to classification"),
        (["1.5", "2", "many"], 3, "has the label 'many', and others are decimal numbers"),
        (["1,5", "2,5"], 1, "has the label '1,5': write decimal numbers with a point"),
        ([1.5, 1e30], 2, "has the label 1e+30, which is not below 1e+18"),
        ([1.5, 10**400], 2, "which is not below 1e+18: it cannot be a target"),
        (["1.5", "1e999"], 2, 'has the label "1e999", which is not below 1e+18'),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, labels: list[Any], row: int, problem: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(f'{tmp_path}/train.jsonl, row {row}: ')}.*{re.escape(problem)}"):
        tables(tmp_path, labels)


@pytest.mark.parametrize("labels", [["1", "1.0", "0"], ["1", "2", "01"], ["+1", "1"]])
def test_classes_that_are_one_number_are_refused(tmp_path: Path, labels: list[Any]) -> None:
    with pytest.raises(DataError, match=r"has the label '.*', and .*, which are one number: write them alike"):
        tables(tmp_path, labels, "classification")


@pytest.mark.parametrize(
    "labels", [["none", "good"], ["N/A", "yes"], ["1.2.3", "1.2.4"], ["18-25", "26+"], ["2020-01-01", "2020-02-01"]]
)
def test_texts_are_classes(tmp_path: Path, labels: list[Any]) -> None:
    assert tables(tmp_path, labels)[0] == "classification"
    assert tables(tmp_path, ["nan", "10%", *labels], "classification")[0] == "classification"


def test_one_class(tmp_path: Path) -> None:
    for label in ("a", 1, True):
        with pytest.raises(DataError, match=r"train.jsonl: all 3 rows have the label .*: two are needed"):
            tables(tmp_path, [label] * 3)


@pytest.mark.parametrize(
    ("labels", "task", "found", "names"),
    [
        (["10", "2", "2", "1"], "auto", "classification", ["1", "2", "10"]),
        ([10, 2, 1], "auto", "classification", ["1", "2", "10"]),
        ([True, False], "auto", "classification", ["False", "True"]),
        (["b", "a"], "auto", "classification", ["a", "b"]),
        (["null", "NA"], "auto", "classification", ["NA", "null"]),
        (["1", "2", "other"], "auto", "classification", ["1", "2", "other"]),
        (["1.1", "1.1.2"], "classification", "classification", ["1.1", "1.1.2"]),
        ([1.0, 0.0], "classification", "classification", ["0", "1"]),
        ([1.0, 0.0], "regression", "regression", []),
        ([1, 0], "regression", "regression", []),
        (["0.5", " 1", "-2e3"], "auto", "regression", []),
        ([0, 1.5], "auto", "regression", []),
    ],
)
def test_labels_that_are_taken(tmp_path: Path, labels: list[Any], task: str, found: str, names: list[str]) -> None:
    task, table = tables(tmp_path, labels, task)
    assert task == found
    if names:
        assert row_checks.classes(table) == names


@pytest.mark.parametrize("value", ["nan", "inf", "1_000", "0x1", "\u0663", "", "1.5.2", True, None])
def test_values_that_are_no_target(value: object) -> None:
    assert row_checks.target(value) is None


def test_a_label_that_training_lacks(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,good\nb,bad\n")
    (tmp_path / "validation.csv").write_text("text,label\na,good\nb,bad \n")
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "validation")}
    message = "validation.csv, row 2 (line 3): label 'bad ' is not among the labels of the training data: bad, good"
    with pytest.raises(DataError, match=re.escape(message)):
        row_checks.training_tables(files)
    assert row_checks.training_tables(files, most={"validation": 1})[0] == "classification"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "text,Label",
            "train data need the columns text, or sentence1 and sentence2, and label, but have: text, Label",
        ),
        (" text,label", "but have: ' text', label"),
        ("text;label", ""),
        ("text\tlabel", ""),
    ],
)
def test_columns(tmp_path: Path, header: str, message: str) -> None:
    rows = "".join(f"x{header.strip('a')[-6]}{label}\n" for label in (0, 1))
    (tmp_path / "train.csv").write_text(f"{header}\n{rows}")
    if not message:
        assert row_checks.training_tables({"train": tmp_path / "train.csv"})[0] == "classification"
        return
    with pytest.raises(DataError, match=re.escape(message)):
        row_checks.training_tables({"train": tmp_path / "train.csv"})


def test_columns_that_nobody_reads_may_have_anything(tmp_path: Path) -> None:
    rows = [{"text": f"a {number}", "label": number % 2} for number in range(4)]
    for row, other in zip(rows, (None, 1, "x", ["\ud83d", {"a": None}])):
        row.update(other=other, sentence=other)
    (tmp_path / "train.json").write_text(json.dumps(rows))
    del rows[0]["sentence"]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _task, columns, found = row_checks.training_tables({"train": tmp_path / "train.jsonl"})
    assert (columns, found["train"].columns["label"]) == (("text",), [0, 1, 0, 1])
    with pytest.raises(DataError, match=r"train.json, row 1: has no value in the column sentence"):
        row_checks.training_tables({"train": tmp_path / "train.json"})


QUESTION = {"question": "q", "context": "one two", "answers": {"text": ["two"], "answer_start": [4]}}


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"text": ["two"], "answer_start": [4]}, ""),
        ({"text": [], "answer_start": []}, ""),
        ("c", 'answers must have text and answer_start, not "c"'),
        (None, "answers must have text and answer_start, not null"),
        ({"text": "two", "answer_start": 4}, "answers must have lists of text and answer_start"),
        ({"text": ["two"], "answer_start": []}, "answers has 1 text and 0 answer_start"),
        ({"text": ["two"], "answer_start": ["4"]}, 'has answer_start "4", where a whole number is expected'),
        ({"text": ["two"], "answer_start": [True]}, "has answer_start true, where a whole number is expected"),
        ({"text": ["two"], "answer_start": [3]}, "answer 'two' is not at 3 in the context"),
        ({"text": ["two"], "answer_start": [-3]}, "answer 'two' is not at -3 in the context"),
        ({"text": [2], "answer_start": [4]}, "has the answer 2, where a text is expected"),
    ],
)
def test_answers(tmp_path: Path, answers: object, problem: str) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([QUESTION, {**QUESTION, "answers": answers}]))
    if not problem:
        task, _columns, found = row_checks.training_tables({"train": path})
        assert (task, len(found["train"])) == ("qa", 2)
        return
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}, row 2: {problem}')}"):
        row_checks.training_tables({"train": path})


def test_questions_without_answers(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps([{"question": "q", "context": "c"}]))
    with pytest.raises(DataError, match=r"^train data lack answers; they have: question, context$"):
        row_checks.training_tables({"train": tmp_path / "train.json"}, "qa")


def test_texts_that_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("negative,query,document,other\nc,a,b,x\nf,d,e,y\n")
    texts = {"query": ["a", "d"], "document": ["b", "e"], "negative": ["c", "f"]}
    assert row_checks.related_texts(path) == texts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("query,document\na,b\nc,\n", ", row 2 (line 3): has no text in the column document"),
        ("query,text\na,b\n", ", row 1 (line 2): has no column document"),
        ("query,document,label\na,b,0\n", " has the column label, which is not read"),
        ("query,document,negative\na,b,d\na,c,b\n", ", row 2 (line 3): its negative is a document of the same query"),
        ("query,document\na,b\na,c\nd,c\n", ": all documents belong to one query"),
        ("query,document\na,b\nc,b\n", ": fewer than two documents differ"),
    ],
)
def test_texts_that_do_not(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}{problem}')}"):
        row_checks.related_texts(path)
