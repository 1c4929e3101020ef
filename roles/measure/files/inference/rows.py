# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a CSV, JSON lines or Parquet file: found by their place, read in chunks, and written with further columns.

A row that cannot be read is *broken*: it has a problem instead of values, and the rows after it are read all the same.
Memory is that of a chunk, however large the file. Only Parquet needs a library, pyarrow.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"
# Formats by the end of a file's name.
FORMATS = {
    ".csv": CSV,
    ".tsv": CSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSONL,
    ".parquet": PARQUET,
}
DELIMITERS = ",;\t"
# Lines that a row of CSV may have: a quote that is not closed within so many is a broken row of one line.
MOST_LINES = 1000
# Characters of a broken row that are kept, and rows that are read to estimate how many there are.
KEPT = 1 << 16
SAMPLED = 200
MARK = "\ufeff".encode()

csv.field_size_limit(1 << 24)


class DataError(ValueError):
    """The file cannot be predicted on; the text says why and what to do."""


@dataclass(frozen=True)
class Record:
    """A row. line: of its first line in the file, from 1; of Parquet the number of the row, from 1.

    values: by column, empty for a broken row. content: the row as it is in the file, where it is text. problem: why it
    is broken, empty where it is not.
    """

    line: int
    values: Mapping[str, Any]
    content: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Place:
    """Where a chunk begins: the byte (of Parquet the row, from 0), its line, and how many rows it has."""

    offset: int
    line: int
    rows: int


class Data:
    """A file of rows. columns: their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []

    def places(self, chunk_rows: int) -> list[Place]:
        """Return where the chunks of so many rows each begin; the last one may be smaller. Raises OSError."""
        raise NotImplementedError

    def read(self, place: Place) -> list[Record]:
        """Return the rows of a chunk, broken ones too. Raises OSError."""
        raise NotImplementedError

    def estimate(self) -> int:
        """Return about how many rows there are; 0 for none."""
        raise NotImplementedError

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        """Return rows, none of them broken, with their added columns in the file's format, without a header."""
        raise NotImplementedError

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        """Write the file of all payloads, in their order. names: of the added columns."""
        raise NotImplementedError


class Lines(Data):
    """What CSV and JSON lines have in common: records that are lines, found by their byte.

    beginning: the byte and the line at which the rows begin.
    """

    beginning: tuple[int, int]

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        """Yield (bytes up to its end, counted from where the stream is, record) from a line's beginning on."""
        raise NotImplementedError

    @staticmethod
    def is_empty(line: bytes) -> bool:
        """Tell whether a line is no row."""
        return not line.strip(b"\r\n")

    def places(self, chunk_rows: int) -> list[Place]:
        offset, line = self.beginning
        first, begin, count = line, offset, 0
        found = []
        with self.path.open("rb") as stream:
            stream.seek(offset)
            for end, record in self.records(stream, line):
                if count == 0:
                    first = record.line
                count += 1
                if count == chunk_rows:
                    found.append(Place(begin, first, count))
                    begin, count = offset + end, 0
        if count:
            found.append(Place(begin, first, count))
        return found

    def read(self, place: Place) -> list[Record]:
        found: list[Record] = []
        with self.path.open("rb") as stream:
            stream.seek(place.offset)
            # Empty lines lie before its first row, perhaps.
            skipped = 0
            while (line := stream.readline()) and self.is_empty(line):
                skipped += len(line)
            stream.seek(place.offset + skipped)
            for _end, record in self.records(stream, place.line):
                found.append(record)
                if len(found) == place.rows:
                    break
        return found

    def estimate(self) -> int:
        offset, line = self.beginning
        with self.path.open("rb") as stream:
            stream.seek(offset)
            ends = [end for end, _record in islice(self.records(stream, line), SAMPLED)]
        return max(len(ends), (self.path.stat().st_size - offset) * len(ends) // ends[-1]) if ends else 0


class Csv(Lines):
    """CSV as RFC 4180 has it, UTF-8, with a header; fields are divided by a comma, a semicolon or a tabulator."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as stream:
            first = stream.read(len(MARK))
            self.mark = len(MARK) if first == MARK else 0
            stream.seek(self.mark)
            line = stream.readline()
        self.delimiter = "\t" if path.suffix == ".tsv" else _delimiter(line.decode(errors="replace"))
        self.end = "\r\n" if line.endswith(b"\r\n") else "\n"
        with path.open("rb") as stream:
            stream.seek(self.mark)
            header = next(self._raw(stream, 1), None)
        if header is None:
            raise DataError(f"{path} is empty: there is no header and no row in it")
        line_number, raw, fields, problem = header
        if problem:
            raise DataError(f"{path}: its header, line {line_number}, {problem}")
        self.columns = fields
        twice = sorted({name for name in fields if fields.count(name) > 1})
        if twice or "" in fields:
            what = f"the column {twice[0]} twice" if twice and twice[0] else "a column without a name"
            raise DataError(f"{path}: its header, line {line_number}, has {what}: columns are found by their names")
        self.beginning = self.mark + len(raw), line_number + raw.count(b"\n")

    def _raw(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, bytes, list[str], str]]:
        """Yield (line, bytes with the empty lines before, fields, problem) of each record."""
        ahead: deque[bytes] = deque()
        empty: list[bytes] = []
        while True:
            first = ahead.popleft() if ahead else stream.readline()
            if not first:
                return
            if self.is_empty(first):
                empty.append(first)
                line += 1
                continue
            taken = [first]
            fields, problem = _parsed(taken, self.delimiter)
            while problem == OPEN and len(taken) < MOST_LINES:
                following = ahead.popleft() if ahead else stream.readline()
                if not following:
                    break
                taken.append(following)
                if b'"' in following:
                    fields, problem = _parsed(taken, self.delimiter)
            if len(taken) > 1 and (problem or len(fields) != (len(self.columns) or len(fields))):
                problem = OPEN  # the quote that closed it was that of another row
            if problem == OPEN:  # its end is not known, so only its first line is given up
                ahead.extendleft(reversed(taken[1:]))
                taken = taken[:1]
            yield line, b"".join([*empty, *taken]), fields, problem
            line += len(taken)
            empty.clear()

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        end = 0
        for number, raw, fields, problem in self._raw(stream, line):
            end += len(raw)
            if not problem and len(fields) != len(self.columns):
                problem = f"has {len(fields)} fields, and the header {len(self.columns)}"
            if problem:
                yield end, Record(number, {}, _kept(raw), problem)
            else:
                yield end, Record(number, dict(zip(self.columns, fields)))

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        return self._text(
            [*record.values.values(), *(_cell(more.get(name)) for name in names)]
            for record, more in zip(records, added)
        )

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        target.write(MARK[: self.mark] + self._text([[*self.columns, *names]]))
        for payload in payloads:
            target.write(payload)

    def _text(self, rows: Iterable[Sequence[str]]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.delimiter, lineterminator=self.end).writerows(rows)
        return text.getvalue().encode()


OPEN = "has a quote that is not closed"


def _parsed(lines: Sequence[bytes], delimiter: str) -> tuple[list[str], str]:
    """Return (fields, problem) of one record of CSV."""
    try:
        found = list(csv.reader([line.decode() for line in lines], delimiter=delimiter, strict=True))
    except UnicodeDecodeError as error:
        return [], f"is not UTF-8: byte {error.object[error.start]:#04x}"
    except csv.Error as error:
        return [], OPEN if "unexpected end of data" in str(error) else f"is not CSV: {error}"
    return (found[0], "") if len(found) == 1 else ([], "is not CSV: its lines are several rows")


def _delimiter(header: str) -> str:
    """Return the delimiter that a header has most of, the comma where it has none."""
    return max(DELIMITERS, key=header.count)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _kept(raw: bytes) -> str:
    return raw.decode(errors="replace").strip("\r\n")[:KEPT]


class JsonLines(Lines):
    """JSON lines: an object in each line. Its columns are those of the first row that is not broken."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as stream:
            self.mark = len(MARK) if stream.read(len(MARK)) == MARK else 0
            self.beginning = self.mark, 1
            stream.seek(self.mark)
            start = stream.read(4096).lstrip()
            if start[:1] == b"[":
                raise DataError(f"{path} is a JSON array: write one object in each line (jq -c '.[]')")
            stream.seek(self.mark)
            for count, (_end, record) in enumerate(self.records(stream, 1)):
                if not record.problem:
                    self.columns = list(record.values)
                    break
                if count == SAMPLED:
                    raise DataError(f"{path}: none of its first {SAMPLED} rows can be read: line 1 {record.problem}")

    @staticmethod
    def is_empty(line: bytes) -> bool:
        return not line.strip()

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        end = 0
        for raw in iter(stream.readline, b""):
            end += len(raw)
            if not self.is_empty(raw):
                yield end, _object(line, raw)
            line += 1

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        rows = [{**record.values, **{name: more.get(name) for name in names}} for record, more in zip(records, added)]
        try:
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        except UnicodeEncodeError:  # half of a character, written as \\ud83d
            return "".join(json.dumps(row) + "\n" for row in rows).encode()

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        for payload in payloads:
            target.write(payload)


def _object(line: int, raw: bytes) -> Record:
    try:
        values = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        return Record(line, {}, _kept(raw), f"is not UTF-8: byte {error.object[error.start]:#04x}")
    except (ValueError, RecursionError) as error:
        return Record(line, {}, _kept(raw), f"is not JSON: {error}")
    if not isinstance(values, dict):
        return Record(line, {}, _kept(raw), "is JSON, but no object with columns")
    return Record(line, values)


class Parquet(Data):
    """Parquet, read by pyarrow, which the stacks have."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise DataError(f"{path} is Parquet, and {sys.executable} has no pyarrow to read it") from None
        self.arrow = pyarrow
        try:
            self.file = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path} is not Parquet: {str(error).splitlines()[0][:200]}") from error
        self.columns = list(self.file.schema_arrow.names)
        self.cached: tuple[int, Any] = (-1, None)

    def estimate(self) -> int:
        return int(self.file.metadata.num_rows)

    def places(self, chunk_rows: int) -> list[Place]:
        total = self.estimate()
        return [Place(first, first + 1, min(chunk_rows, total - first)) for first in range(0, total, chunk_rows)]

    def table(self, place: Place) -> Any:
        """Return the rows of a chunk, from all row groups that they lie in; the last row group is kept."""
        parts, begin = [], 0
        for group in range(self.file.metadata.num_row_groups):
            end = begin + self.file.metadata.row_group(group).num_rows
            if begin < place.offset + place.rows and place.offset < end:
                if self.cached[0] != group:
                    self.cached = group, self.file.read_row_group(group)
                first = max(place.offset, begin)
                parts.append(self.cached[1].slice(first - begin, min(end, place.offset + place.rows) - first))
            begin = end
        return self.arrow.concat_tables(parts)

    def read(self, place: Place) -> list[Record]:
        return [Record(place.line + row, values) for row, values in enumerate(self.table(place).to_pylist())]

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        # A chunk's lines are those of its rows one after another: what is left of it, with its own types.
        lines = [record.line for record in records]
        if lines:
            table = self.table(Place(lines[0] - 1, lines[0], lines[-1] - lines[0] + 1))
            table = table.take(self.arrow.array([line - lines[0] for line in lines]))
        else:
            table = self.file.schema_arrow.empty_table()
        for name in names:
            kind = self.arrow.float64() if name.endswith("_score") else self.arrow.string()
            table = table.append_column(name, self.arrow.array([more.get(name) for more in added], type=kind))
        target = io.BytesIO()
        self.arrow.parquet.write_table(table, target)
        return target.getvalue()

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        writer = None
        for payload in payloads:
            table = self.arrow.parquet.read_table(io.BytesIO(payload))
            if writer is None:
                writer = self.arrow.parquet.ParquetWriter(target, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


KINDS: dict[str, type[Data]] = {CSV: Csv, JSONL: JsonLines, PARQUET: Parquet}


def open_data(path: Path) -> Data:
    """Open a file of rows by the end of its name. Raises DataError and OSError."""
    if path.suffix not in FORMATS:
        raise DataError(
            f"{path} is no file of rows that is known: its name must end in one of {', '.join(FORMATS)} "
            "(CSV, JSON lines or Parquet)"
        )
    if not path.is_file():
        raise DataError(f"there is no file {path}" if not path.exists() else f"{path} is a directory: name a file")
    return KINDS[FORMATS[path.suffix]](path)


def describe(path: Path) -> dict[str, Any]:
    """Return {format, columns, bytes, rows (an estimate)} of a file. Raises DataError and OSError."""
    data = open_data(path)
    rows = data.estimate()
    if not rows:
        raise DataError(f"{path} is empty: there is no row in it")
    return {"format": FORMATS[path.suffix], "columns": data.columns, "bytes": path.stat().st_size, "rows": rows}
