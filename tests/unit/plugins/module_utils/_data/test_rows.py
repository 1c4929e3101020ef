"""Rows of CSV, JSON lines and Parquet: each in one chunk, in their order, broken ones named, whatever they are."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from hypothesis import example, given, settings
from hypothesis import strategies as st

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SEEN = ANY.filter(rows.visible)
# What readers and writers of CSV take for something else.
ODD = st.text(st.sampled_from('a"\r\n,;\t \ufeff\0\u2028\x85'), max_size=6)
CELL = st.one_of(ANY, ODD)


def read_all(data: rows.Data, chunk_rows: int) -> list[rows.Record]:
    return [record for place in data.places(chunk_rows) for record in data.read(place)]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and rows that have as many cells."""
    names = draw(st.lists(SEEN.filter(lambda name: "\0" not in name), min_size=1, max_size=3, unique_by=rows.visible))
    return names, draw(st.lists(st.lists(CELL, min_size=len(names), max_size=len(names)), min_size=1, max_size=12))


@pytest.mark.slow
@settings(deadline=None)
@given(
    table=tables(),
    added=CELL,
    delimiter=st.sampled_from(rows.DELIMITERS),
    mark=st.booleans(),
    chunk_rows=st.integers(1, 7),
)
@example(table=(["a"], [["a\rb"], ["\ufeff"], ["\0b"]]), added="a\rb", delimiter=",", mark=False, chunk_rows=2)
def test_what_leaves_as_csv_reads_back_the_same(
    table: tuple[list[str], list[list[str]]],
    added: str,
    delimiter: str,
    mark: bool,
    chunk_rows: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    names, cells = table
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    # A header of one column has no delimiter, and a comma is taken.
    lines = "".join(rows.csv_line(row, delimiter if len(names) > 1 else ",") + "\n" for row in [names, *cells])
    path.write_bytes(rows.MARK * mark + lines.encode())
    data = rows.open_data(path)
    assert data.columns == names
    records = read_all(data, chunk_rows)
    assert [record.problem for record in records] == [""] * len(cells)
    assert [list(record.values.values()) for record in records] == cells
    with path.with_name("out.csv").open("wb") as stream:
        data.join(stream, [data.payload(records, [{"generated": added}] * len(cells), ["generated"])], ["generated"])
    back = rows.open_data(path.with_name("out.csv"))
    assert back.columns == [*names, "generated"]
    assert [list(record.values.values()) for record in back] == [[*row, added] for row in cells]
    if sys.version_info >= (3, 11) or "\0" not in str([cells, added]):
        text = path.with_name("out.csv").read_bytes().decode("utf-8-sig" if mark else "utf-8")
        of_python = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter if len(names) > 1 else ","))
        assert of_python[1:] == [[*row, added] for row in cells]


@pytest.mark.slow
@settings(deadline=None)
@given(
    values=st.lists(
        st.dictionaries(SEEN, st.one_of(ANY, st.integers(), st.none()), min_size=1),
        min_size=1,
    ).filter(lambda values: len({rows.visible(name) for name in values[0]}) == len(values[0])),
    chunk_rows=st.integers(1, 5),
    lines=st.booleans(),
)
@example(values=[{"paragraphs": "0"}], chunk_rows=1, lines=False)
@example(values=[{"paragraphs": ""}], chunk_rows=1, lines=False)
@example(values=[{"paragraphs": None, "qas": 1}], chunk_rows=1, lines=False)
@example(values=[{"paragraphs": [{"context": "Ada did."}]}, {"paragraphs": []}], chunk_rows=1, lines=False)
@example(values=[{"data": "x"}], chunk_rows=1, lines=False)
@example(values=[{"data": {}, "version": 1}], chunk_rows=1, lines=True)
def test_json_is_read_in_chunks(
    values: list[dict[str, object]], chunk_rows: int, lines: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("json") / "rows.json"
    path.write_text("\n\n".join(map(json.dumps, values)) if lines else json.dumps(values, indent=1), encoding="utf-8")
    data = rows.open_data(path)
    records = read_all(data, chunk_rows)
    assert [record.values for record in records] == values
    assert [record.line for record in records] == [1 + (1 + lines) * number for number in range(len(values))]
    with path.with_name("out.json").open("wb") as stream:
        data.join(stream, [data.payload(records, [{"label": "x"}] * len(values), ["label"])], ["label"])
    again = [record.values for record in rows.open_data(path.with_name("out.json"))]
    assert again == [{**row, "label": "x"} for row in values]


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
        assert problems[7] == "is not UTF-8 (byte 0xff): save the file as UTF-8"
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
        ("rows.csv", "a;b\n", "is empty: there is no row in it"),
        ("rows.csv", "text,label\rx,1\r", "line 1, has a carriage return (CR) outside of quotes: let lines end in LF"),
        ("rows.csv", 'text,"label\nx,1\n', "line 1, has a quote that is not closed"),
        ("rows.csv", "\ufefftext,text \nx,1\n", "has the columns 'text' and 'text ', which differ only by blanks"),
        ("rows.csv", "caf\u00e9,cafe\u0301\nx,1\n", "which differ only by blanks"),
        ("rows.csv", "text,\u200b\nx,1\n", "has a column without a name"),
        ("rows.csv", "t\0e\0\n", "its header has NUL characters, as UTF-16 has"),
        ("rows.csv", "version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
        ("rows.csv.gz", "a", "its name must end in one of .csv"),
        ("rows.json", "[]", "is empty: there is no row in it"),
        ("rows.json", "[1, 2]", "row 1 is JSON, but no object with columns"),
        ("rows.json", '"text"', "none of its first rows can be read: line 1 is JSON, but no object with columns"),
        ("rows.json", '[{"a": 1}', "is not JSON: Expecting ',' delimiter"),
        ("rows.jsonl", '{"a": 1, "a": 2}', "line 1 has the key 'a' twice"),
        ("rows.json", '[{"a": {"b": 1, "b": 2}}]', "has the key 'b' twice"),
        (
            "rows.json",
            '{"version": "2", "data": [{"paragraphs": [{"qas": [{}]}]}]}',
            "article 1 of data is not as SQuAD",
        ),
        (
            "rows.json",
            '{"version": "2", "data": [{"paragraphs": [{"context": "c", "questions": []}]}]}',
            "article 1 of data is not as SQuAD has it (paragraphs, context, qas, question): KeyError: 'qas'",
        ),
        ("rows.json", '{"version": "2", "data": [{"title": "t", "paragraphs": []}]}', "there is no row in it"),
        ("rows.json", '[{"paragraphs": [{"context": "c", "qas": []}]}, {"title": "x"}]', "article 2 of data is not as"),
        ("rows.csv", "", "is empty: there is no header and no row in it"),
        ("rows.csv", "a,b\n", "is empty: there is no row in it"),
        ("rows.jsonl", "\n", "is empty: there is no row in it"),
        ("rows.csv", "a,a\n1,2\n", "has the column a twice"),
        ("rows.csv", "a,\n1,2\n", "has a column without a name"),
        ("rows.csv", "sep=;\r\na;b\r\n1;2\r\n", "its first line is a spreadsheet's sep=: remove it"),
        ("rows.csv", "sep=,\na,b\n1,2\n", "its first line is a spreadsheet's sep=: remove it"),
        ("rows.jsonl", "{}\n{}\n", "none of its first rows can be read: line 1 has no columns"),
        ("rows.json", "[{}]", "row 1 has no columns"),
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
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(rows.DataError, match="is no regular file: name a file"):
        rows.describe(tmp_path / "rows.csv")


def test_a_header_within_the_rows_is_a_broken_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('text,label\na,b\n"text",label\nlabel,text\n')
    assert [record.problem for record in rows.open_data(tmp_path / "rows.csv")] == [
        "",
        "is the header once more: remove it",
        "",
    ]
    (tmp_path / "rows.csv").write_text("text\ntext\n")
    assert [record.problem for record in rows.open_data(tmp_path / "rows.csv")] == [""]


def test_columns_are_those_of_the_first_row_that_has_some(tmp_path: Path) -> None:
    for name, content in {"rows.jsonl": '{}\n{"a": 1}\n', "rows.json": '[{}, {"a": 1}]'}.items():
        (tmp_path / name).write_text(content)
        assert rows.open_data(tmp_path / name).columns == ["a"]


@pytest.mark.parametrize("begin", [b"\x1f\x8b\x08", b"PK\x03\x04", b"\xff\xfet\0", b"\xfe\xff\0t", b"\xd0\xcf\x11\xe0"])
def test_files_of_other_formats(tmp_path: Path, begin: bytes) -> None:
    for name in ("rows.csv", "rows.json", "rows.parquet"):
        (tmp_path / name).write_bytes(begin + b"\0\1")
        with pytest.raises(rows.DataError, match=r" is (compressed|a ZIP|UTF-16|a spreadsheet).*: "):
            rows.open_data(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": NaN}', "has NaN, which is no JSON: write null"),
        ('{"text": 1e999}', "has the number 1e999, which is too large"),
        ('{"text": ' + "1" * 5000 + "}", "has a number of 5000 digits"),
        ('{"text": ' + "[" * 101 + "]" * 101 + "}", "has more than 100 levels within each other"),
        ('{"text": ' + "[" * 99999 + "]" * 99999 + "}", "has more than 100 levels within each other"),
        ('{"text": "a", "text": "b"}', "has the key 'text' twice"),
        ("[1]", "is JSON, but no object with columns"),
        ("\0", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_rows_of_json_that_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n\n' + line + "\n", encoding="utf-8")
    assert [record.problem for record in rows.open_data(path)] == ["", problem]
    with pytest.raises(rows.DataError, match=f"^{re.escape(f'{path}, row 2 (line 3): {problem}')}$"):
        list(rows.rows_of(path))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("a", ""),
        ("", "has no text in the column text"),
        (" \t\u200b", "has no text in the column text"),
        (None, "has no value in the column text"),
        (5, "has 5 in the column text, where a text is expected"),
        ("\ud83d", "has half of a character in the column text"),
    ],
)
def test_texts(value: object, problem: str) -> None:
    assert rows.text_problem({"text": value, "other": None}, ["text"]) == problem
    assert rows.text_problem({"other": value}, ["text"]) == "has no column text"


def test_long_cells_and_texts_of_many_lines(tmp_path: Path) -> None:
    text = "word " * 60_000 + "\n" * 5_000 + "end"
    (tmp_path / "rows.csv").write_text(f'text,label\n"{text}",1\n')
    assert [record.values["text"] for record in rows.open_data(tmp_path / "rows.csv")] == [text]


def test_delimiters_within_quotes_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('"a,b,c";d\n1;2\n')
    assert rows.open_data(tmp_path / "rows.csv").columns == ["a,b,c", "d"]


def test_squad_is_flattened(tmp_path: Path) -> None:
    qa = {"id": "7", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}
    nested: dict[str, Any] = {
        "version": "1.1",
        "data": [{"title": "t", "paragraphs": [{"context": "Ada did.", "qas": [qa, qa]}]}],
    }
    path = tmp_path / "squad.json"
    answers = {"text": ["Ada"], "answer_start": [0]}
    for indent in (None, 1):
        path.write_text(json.dumps(nested, indent=indent), encoding="utf-8")
        row = {"id": "7", "question": "Who?", "context": "Ada did.", "answers": answers}
        assert [record.values for record in rows.open_data(path)] == [row, row]
        # As an array of articles, too; one without paragraphs has no questions.
        further = [{**article, "url": "u"} for article in nested["data"]]
        empty = {"title": "e", "paragraphs": []}
        for document in (nested["data"], further, [empty, *further], {"data": [empty, *nested["data"]]}):
            path.write_text(json.dumps(document, indent=indent), encoding="utf-8")
            assert [record.values for record in rows.open_data(path)] == [row, row]


ARTICLE = {"title": "t", "paragraphs": [{"context": "c", "qas": [{"question": "q"}]}]}


@pytest.mark.parametrize(
    "values",
    [
        [{"text": "a"}, {"text": "b", "paragraphs": [{"qas": 1}]}],
        [{"text": "a"}, ARTICLE],
        [{"text": "a", "paragraphs": []}, ARTICLE],
        [{"text": "a", "label": 1, "paragraphs": [{"context": "c", "qas": []}]}],
        [{"title": "t", "paragraphs": ["one", "two"]}],
        [{"title": "t", "paragraphs": [{"context": "c"}]}],
    ],
)
def test_rows_with_paragraphs_are_no_articles(tmp_path: Path, values: list[dict[str, object]]) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    assert [record.values for record in rows.open_data(path)] == values


@settings(deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from([b'"', b",", b";", b"\n", b"\r", b"a", b"\xff", b"\0", b" ", b'{"a": ', b"1}", b"[", b"]"])
        ).map(b"".join),
    ),
    name=st.sampled_from(["rows.csv", "rows.tsv", "rows.jsonl", "rows.json"]),
    chunk_rows=st.integers(1, 3),
)
def test_whatever_a_file_has_it_is_read_or_refused_alike(
    content: bytes, name: str, chunk_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In chunks, as predictions do, and at once, as training does."""
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(content)
    try:
        chunks = read_all(rows.open_data(path), chunk_rows)
    except rows.DataError as error:
        with pytest.raises(rows.DataError, match=f"^{re.escape(str(error))}$"):
            list(rows.rows_of(path))
        return
    assert chunks == list(rows.open_data(path))
    if not chunks or any(record.problem for record in chunks):
        with pytest.raises(rows.DataError):
            list(rows.rows_of(path))
    else:
        assert [record for _number, record in rows.rows_of(path)] == chunks


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
