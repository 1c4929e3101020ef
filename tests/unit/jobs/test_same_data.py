"""The same file is accepted or refused alike by training, preparation, prediction and serving."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import row_checks, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkout import ROOT
from support.scripts import load

VALUES = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["", " ", "\u200b", "\ud83d", "\0", '"', "\r", "a;b", "a,b", "1.0", "nan"]),
    st.none(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.lists(st.text(max_size=2), max_size=2),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["text", "label", "other"]), VALUES), max_size=4)
PARTS = [
    b"text",
    b"label",
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b'"',
    b"\xff",
    b"\0",
    b"\xef\xbb\xbf",
    b" ",
    b"a",
    b"1",
]
TABLES = st.lists(st.sampled_from(PARTS), max_size=30).map(lambda parts: b"text,label\n" + b"".join(parts))


@pytest.fixture(scope="module")
def decoder() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "jobs/scripts"))
    yield load(ROOT / "jobs/scripts/prepare_decoder.py")
    sys.path.remove(str(ROOT / "jobs/scripts"))


def refused_by(path: Path, decoder: ModuleType) -> dict[str, str]:
    """Return {who: why} of those who refuse a file with a column `text`."""
    refused = {}
    try:
        for where, row in decoder.read(str(path)):
            (text,) = decoder.texts({"text": row.get("text")}, lambda _messages, _asks: "")
            if rows.is_half(text.text):  # as tokens() says
                raise rows.DataError(f"{where}: has half of a character")
    except rows.DataError as error:
        refused["preparation"] = str(error)
    try:
        row_checks.check_texts(row_checks.read_table(path, ["text"]), ["text"])
    except rows.DataError as error:
        refused["training"] = str(error)
    try:
        data = rows.open_data(path)
        records = [record for place in data.places(2) for record in data.read(place)]
        problems = [record.problem or rows.text_problem(record.values, ["text"]) for record in records]
        if not records or any(problems):
            refused["prediction"] = next(filter(None, problems), "is empty")
    except rows.DataError as error:
        refused["prediction"] = str(error)
    return refused


@pytest.mark.slow
@settings(deadline=None)
@given(values=ROWS, form=st.sampled_from(["lines", "array", "data"]), name=st.sampled_from(["rows.json", "rows.jsonl"]))
def test_json(
    values: list[dict[str, object]], form: str, name: str, decoder: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("json") / name
    whole = {"lines": "\n".join(map(json.dumps, values)), "array": json.dumps(values)}
    path.write_text(whole.get(form, json.dumps({"data": values})), encoding="utf-8")
    assert len(refused_by(path, decoder)) in (0, 3)


@settings(deadline=None)
@given(content=st.one_of(TABLES, st.binary(max_size=30)), name=st.sampled_from(["rows.csv", "rows.tsv"]))
def test_csv(content: bytes, name: str, decoder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("csv") / name
    path.write_bytes(content)
    assert len(refused_by(path, decoder)) in (0, 3)


def test_parquet(decoder: ModuleType, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    for texts, refused in ((["a", "b"], 0), (["a", None], 3), (["a", " "], 3), ([1, 2], 3), ([["a"], ["b"]], 3)):
        parquet.write_table(arrow.table({"text": texts, "label": [0, 1]}), path)
        assert len(refused_by(path, decoder)) == refused
    parquet.write_table(arrow.table([[1], ["a"]], names=["text", "text"]), path)
    assert len(refused_by(path, decoder)) == 3
