"""Rows of CSV, JSON lines and Parquet: each in one chunk, in their order, broken ones named, whatever they are."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import rows
from hypothesis import given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)


def read_all(data: rows.Data, chunk_rows: int) -> list[rows.Record]:
    return [record for place in data.places(chunk_rows) for record in data.read(place)]


@settings(deadline=None)
@given(table=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=30), chunk_rows=st.integers(1, 7))
def test_csv_is_read_in_chunks_as_pythons_reader_reads_it(
    table: list[tuple[str, str]], chunk_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("a", "b"), *table])
    path.write_bytes(text.getvalue().encode())
    data = rows.open_data(path)
    records = read_all(data, chunk_rows)
    assert [tuple(record.values.values()) for record in records] == table
    assert not [record.problem for record in records if record.problem]
    target = io.BytesIO()
    added = [{"label": str(number)} for number in range(len(records))]
    data.join(target, [data.payload(records, added, ["label"])], ["label"])
    back = list(csv.reader(io.StringIO(target.getvalue().decode(), newline="")))
    assert back == [["a", "b", "label"], *([*row, str(number)] for number, row in enumerate(table))]


@settings(deadline=None)
@given(
    values=st.lists(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.none()), min_size=1), min_size=1),
    chunk_rows=st.integers(1, 5),
)
def test_json_lines_are_read_in_chunks(
    values: list[dict[str, object]], chunk_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "rows.jsonl"
    path.write_text("\n\n".join(map(json.dumps, values)), encoding="utf-8")
    data = rows.open_data(path)
    records = read_all(data, chunk_rows)
    assert [record.values for record in records] == values
    assert [record.line for record in records] == [1 + 2 * number for number in range(len(values))]


BROKEN = b"""id,text\r
1,one\r
2\r
3,"three, with a
line break"\r

4,\xff\r
5,"not closed\r
6,"six"\r
7,"seven"x\r
8,5" pipe\r
"""


def test_broken_rows_of_csv_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xef\xbb\xbf" + BROKEN)
    data = rows.open_data(path)
    assert data.columns == ["id", "text"]
    for chunk_rows in (1, 2, 3, 100):
        records = read_all(data, chunk_rows)
        assert {record.values["id"]: record.values["text"] for record in records if not record.problem} == {
            "1": "one",
            "3": "three, with a\nline break",
            "6": "six",
            "8": '5" pipe',
        }
        problems = {record.line: record.problem for record in records if record.problem}
        assert sorted(problems) == [3, 7, 8, 10]
        assert problems[3] == "has 1 fields, and the header 2"
        assert problems[7] == "is not UTF-8: byte 0xff"
        assert problems[8] == "has a quote that is not closed"
        assert problems[10].startswith("is not CSV: ")
    target = io.BytesIO()
    data.join(target, [], ["label"])
    assert target.getvalue() == b"\xef\xbb\xbfid,text,label\r\n"


def test_broken_rows_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'nothing\n{"text": "a"}\n[1]\n{"text": "\xff"}\n\n{"text": "b"}')
    data = rows.open_data(path)
    assert data.columns == ["text"]
    records = read_all(data, 2)
    assert [record.line for record in records if not record.problem] == [2, 6]
    assert {record.line: record.content for record in records if record.problem} == {
        1: "nothing",
        3: "[1]",
        4: '{"text": "\ufffd"}',
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "", "is empty: there is no header and no row in it"),
        ("rows.csv", "a,b\n", "is empty: there is no row in it"),
        ("rows.jsonl", "\n", "is empty: there is no row in it"),
        ("rows.csv", "a,a\n1,2\n", "has the column a twice"),
        ("rows.csv", "a,\n1,2\n", "has a column without a name"),
        ("rows.json", '[{"a": 1}]', "is a JSON array: write one object in each line"),
        ("rows.txt", "a\n", "its name must end in one of .csv"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(rows.DataError) as error:
        rows.describe(path)
    assert message in str(error.value)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(rows.DataError, match="there is no file"):
        rows.describe(tmp_path / "rows.csv")


def test_the_number_of_rows_is_estimated(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text\n" + "0123456789\n" * 5000, encoding="utf-8")
    assert rows.describe(path)["rows"] == 5000


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    table = arrow.table({"id": list(range(23)), "text": [f"text {number}" for number in range(23)]})
    parquet.write_table(table, path, row_group_size=7)
    data = rows.open_data(path)
    places = data.places(5)
    payloads = []
    for place in places:
        records = [record for record in data.read(place) if record.values["id"] not in (3, 11, 22)]
        added = [{"predicted_label": "x", "predicted_score": 0.5} for _record in records]
        payloads.append(data.payload(records, added, ["predicted_label", "predicted_score"]))
    target = tmp_path / "out.parquet"
    with target.open("wb") as stream:
        data.join(stream, payloads, ["predicted_label", "predicted_score"])
    back = parquet.read_table(target)
    assert back.column_names == ["id", "text", "predicted_label", "predicted_score"]
    assert back["id"].to_pylist() == [number for number in range(23) if number not in (3, 11, 22)]
