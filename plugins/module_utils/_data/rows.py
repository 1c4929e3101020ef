# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of users' files, CSV, JSON lines, JSON and Parquet: read in chunks or at once, and written with further columns.

Training, preparation, prediction and serving read by this module alone, so that they accept and refuse the same files.
A row that cannot be read is *broken*: it has a problem instead of values, and the rows after it are read all the same;
`rows_of` refuses it. Memory is that of a chunk, however large the file, but for JSON that is not lines. Only Parquet
needs a library, pyarrow. It runs on hosts, and needs no other module.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn

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
MOST_LINES = 10_000
# Bytes of a line, and levels of JSON within each other.
MOST_BYTES, MOST_LEVELS = 1 << 28, 100
# Digits of a whole number: Python itself reads no more than 4300.
MOST_DIGITS = 4000
# Characters of a broken row that are kept, and rows that are read to estimate how many there are.
KEPT = 1 << 16
SAMPLED = 200
CHUNK = 10_000
MARK = "\ufeff".encode()
# What a file begins with that is none of the formats, whatever its name.
FOREIGN = {
    b"\x1f\x8b": "is compressed (gzip): unpack it first",
    b"BZh": "is compressed (bzip2): unpack it first",
    b"\xfd7zXZ": "is compressed (xz): unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed (zstd): unpack it first",
    b"PK\x03\x04": "is a ZIP archive or a spreadsheet: export it as CSV, or unpack it first",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: export it as CSV",
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
    b"version https://git-lfs": "is a pointer of Git LFS, not the file itself: run `git lfs pull` where it was cloned",
}

# Columns of the texts that are classified, the first set that the data have is used: pairs come first.
TEXT_COLUMNS: tuple[tuple[str, ...], ...] = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("sentence",),
    ("sentence1",),
    ("text",),
)

csv.field_size_limit(MOST_BYTES)


class DataError(ValueError):
    """The data cannot be used; the text says why, with file and row, and what to do."""


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
    """Begin of a chunk: the byte (of Parquet the row, from 0), its line, and how many rows it has."""

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

    def __iter__(self) -> Iterator[Record]:
        """Yield all rows, broken ones too. Raises OSError."""
        for place in self.places(CHUNK):
            yield from self.read(place)

    def check_columns(self, where: str = "") -> None:
        """Raise DataError where two columns cannot be distinguished by their names. where: the columns are named."""
        seen: dict[str, str] = {}
        for name in self.columns:
            shown = visible(name)
            if not shown:
                problem = "a column without a name (an index, or a delimiter too many)"
            elif seen.get(shown) == name:
                problem = f"the column {name} twice"
            elif shown in seen:
                problem = f"the columns {seen[shown]!r} and {name!r}, which differ only by blanks"
            else:
                seen[shown] = name
                continue
            raise DataError(f"{self.path}{where} has {problem}: columns are found by their names")

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        """Return rows, none of them broken, with their added columns in the file's format, without a header."""
        raise NotImplementedError

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        """Write the file of all payloads, in their order. names: of the added columns."""
        raise NotImplementedError


class Lines(Data):
    """Data of CSV or JSON lines: records that are lines, found by their byte.

    beginning: the byte and the line at which the rows begin.
    """

    beginning: tuple[int, int]

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        """Yield (bytes up to its end, counted from where the stream is, record) from a line's beginning on."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Record]:
        offset, line = self.beginning
        with self.path.open("rb") as stream:
            stream.seek(offset)
            for _end, record in self.records(stream, line):
                yield record

    @staticmethod
    def is_empty(line: bytes) -> bool:
        """Return whether a line is no row."""
        return not line.strip(b"\r\n")

    def places(self, chunk_rows: int) -> list[Place]:
        offset, line = self.beginning
        first, begin, count = line, offset, 0
        places = []
        with self.path.open("rb") as stream:
            stream.seek(offset)
            for end, record in self.records(stream, line):
                if count == 0:
                    first = record.line
                count += 1
                if count == chunk_rows:
                    places.append(Place(begin, first, count))
                    begin, count = offset + end, 0
        if count:
            places.append(Place(begin, first, count))
        return places

    def read(self, place: Place) -> list[Record]:
        records: list[Record] = []
        with self.path.open("rb") as stream:
            stream.seek(place.offset)
            # Empty lines lie before its first row, perhaps.
            skipped = 0
            while (line := stream.readline()) and self.is_empty(line):
                skipped += len(line)
            stream.seek(place.offset + skipped)
            for _end, record in self.records(stream, place.line):
                records.append(record)
                if len(records) == place.rows:
                    break
        return records

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
            line = stream.readline(MOST_BYTES)
            for _number in range(MOST_LINES if line.count(b'"') % 2 else 0):  # a name with a line break
                line += stream.readline(MOST_BYTES)
                if line.count(b'"') % 2 == 0:
                    break
        self.delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(line.decode(errors="replace"))
        self.end = "\r\n" if line.endswith(b"\r\n") else "\n"
        with path.open("rb") as stream:
            stream.seek(self.mark)
            header = next(self._raw(stream, 1), None)
        if header is None:
            raise DataError(f"{path} is empty: there is no header and no row in it")
        line_number, raw, fields, problem = header
        if problem:
            raise DataError(f"{path}: its header, line {line_number}, {problem}")
        if "\0" in "".join(fields):
            raise DataError(f"{path}: its header has NUL characters, as UTF-16 has: save the file as UTF-8")
        if len(fields[0]) < 6 and fields[0].lower().startswith("sep=") and not any(fields[1:]):
            raise DataError(f"{path}: its first line is a spreadsheet's sep=: remove it, the header comes first")
        self.columns = fields
        self.check_columns(f": its header, line {line_number},")
        self.beginning = self.mark + len(raw), line_number + raw.count(b"\n")

    def _raw(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, bytes, list[str], str]]:
        """Yield (line, bytes with the empty lines before, fields, problem) of each record."""
        ahead: deque[bytes] = deque()
        empty: list[bytes] = []
        taken: list[bytes] = []

        def lines() -> Iterator[str]:
            while len(taken) < MOST_LINES:
                following = ahead.popleft() if ahead else stream.readline(MOST_BYTES)
                if not following:
                    return
                taken.append(following)
                # Python's csv takes no NUL before 3.11; what stands for it cannot be in text that was decoded.
                yield _decoded(following).replace("\0", NUL)

        while True:
            first = ahead.popleft() if ahead else stream.readline(MOST_BYTES)
            if not first:
                return
            if self.is_empty(first):
                empty.append(first)
                line += 1
                continue
            ahead.appendleft(first)
            taken.clear()
            problem, fields = "", []
            try:
                header = next(csv.reader(lines(), delimiter=self.delimiter, strict=True))
                fields = [cell.replace(NUL, "\0") for cell in header]
            except (csv.Error, DataError) as error:
                problem = _problem_of_csv(error)
                if len(taken) > 1 or problem == OPEN:  # its end is not known, so only its first line is given up
                    problem = OPEN
                    ahead.extendleft(reversed(taken[1:]))
                    del taken[1:]
            yield line, b"".join([*empty, *taken]), fields, problem
            line += len(taken)
            empty.clear()

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        end = 0
        for number, raw, fields, problem in self._raw(stream, line):
            end += len(raw)
            if not problem and len(fields) != len(self.columns):
                problem = f"has {len(fields)} fields, and the header {len(self.columns)}"
            if not problem and fields == self.columns and len(fields) > 1:  # as joined files have it
                problem = "is the header once more: remove it"
            if problem:
                yield end, Record(number, {}, _kept(raw), problem)
            else:
                yield end, Record(number, dict(zip(self.columns, fields)))

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        return self._text(
            [*record.values.values(), *(_cell(extra.get(name)) for name in names)]
            for record, extra in zip(records, added)
        )

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        target.write(MARK[: self.mark] + self._text([[*self.columns, *names]]))
        for payload in payloads:
            target.write(payload)

    def _text(self, rows: Iterable[Sequence[str]]) -> bytes:
        # Half of a character has no UTF-8.
        return "".join(csv_line(row, self.delimiter) + self.end for row in rows).encode(errors="replace")


OPEN = "has a quote that is not closed"
NUL = "\ud800"


def csv_line(cells: Sequence[str], delimiter: str = ",") -> str:
    """Return a row of CSV without its end, from which every reader gets the same cells.

    Python's own writer leaves a lone carriage return without quotes, and a byte order mark at the begin of a file.
    """
    needs = set(f'"\r\n\ufeff\0{DELIMITERS}{delimiter}')
    return delimiter.join(
        '"' + cell.replace('"', '""') + '"' if needs & set(cell) or cell != cell.strip() or cells == [""] else cell
        for cell in cells
    )


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 (byte {error.object[error.start]:#04x}): save the file as UTF-8") from None


def _problem_of_csv(error: Exception) -> str:
    message = str(error)
    if isinstance(error, DataError):
        return message
    if "unexpected end of data" in message:
        return OPEN
    if "new-line character" in message:
        return "has a carriage return (CR) outside of quotes: let lines end in LF or CRLF, and quote such cells"
    return f"is not CSV: {message}"


def visible(text: str) -> str:
    """Return what a person sees of a name: without blanks, marks and formatting characters, in one normal form."""
    kept = (
        character
        for character in text
        if not character.isspace() and unicodedata.category(character) not in ("Cf", "Cc")
    )
    return unicodedata.normalize("NFC", "".join(kept))


def _delimiter(header: str) -> str:
    """Return the delimiter that a header has most of outside of quotes, the comma where it has none."""
    return max(DELIMITERS, key="".join(header.split('"')[::2]).count)


def _cell(value: Any) -> str:
    return "" if value is None else json.dumps(value) if isinstance(value, list) else str(value)


def _kept(raw: bytes) -> str:
    return raw.decode(errors="replace").strip("\r\n")[:KEPT]


def parse_json(source: str | bytes) -> Any:
    """Return what JSON says, of bytes in UTF-8.

    Raises DataError, also for what Python reads and JSON or other readers do not: a key twice, numbers that are not
    finite or have thousands of digits, and more than MOST_LEVELS levels.
    """
    text = _decoded(source) if isinstance(source, bytes) else source
    try:
        value = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_whole
        )
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"has more than {MOST_LEVELS} levels within each other") from None
    except ValueError as error:
        raise DataError(f"is not JSON: {error}") from None
    if text.count("[") + text.count("{") > MOST_LEVELS:
        level, levels = [value], 0
        while level:
            inner = [
                value.values() if isinstance(value, dict) else value
                for value in level
                if isinstance(value, (dict, list))
            ]
            level, levels = [value for values in inner for value in values], levels + 1
            if levels > MOST_LEVELS:
                raise DataError(f"has more than {MOST_LEVELS} levels within each other")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _value in pairs]
        raise DataError(f"has the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return mapping


def _constant(text: str) -> NoReturn:
    raise DataError(f"has {text}, which is no JSON: write null")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise DataError(f"has the number {text[:40]}, which is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise DataError(f"has a number of {len(text)} digits")
    return int(text)


def _json_payload(records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """Return a line of JSON for each row."""
    rows = [{**record.values, **{name: extra.get(name) for name in names}} for record, extra in zip(records, added)]
    try:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    except UnicodeEncodeError:  # half of a character, written as \\ud83d
        return "".join(json.dumps(row) + "\n" for row in rows).encode()


class JsonLines(Lines):
    """JSON lines: an object in each line. Its columns are those of the first row that is not broken."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as stream:
            mark = len(MARK) if stream.read(len(MARK)) == MARK else 0
            self.beginning = mark, 1
            stream.seek(mark)
            first = ""
            for count, (_end, record) in enumerate(self.records(stream, 1)):
                if record.values:
                    self.columns = list(record.values)
                    self.check_columns(f": line {record.line}")
                    return
                first = first or f"line {record.line} {record.problem or 'has no columns'}"
                if count == SAMPLED:
                    break
        if first:
            raise DataError(f"{path}: none of its first rows can be read: {first}")

    @staticmethod
    def is_empty(line: bytes) -> bool:
        return not line.strip()

    def records(self, stream: IO[bytes], line: int) -> Iterator[tuple[int, Record]]:
        end = 0
        for raw in iter(lambda: stream.readline(MOST_BYTES), b""):
            end += len(raw)
            if not self.is_empty(raw):
                yield end, _object(line, raw)
            line += 1

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        return _json_payload(records, added, names)

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        for payload in payloads:
            target.write(payload)


def _object(line: int, raw: bytes) -> Record:
    try:
        values = parse_json(raw)
        if not isinstance(values, dict):
            raise DataError("is JSON, but no object with columns")
        return Record(line, values)
    except DataError as error:
        return Record(line, {}, _kept(raw), str(error))


def _is_nested(document: Any) -> bool:
    """Return whether `document` has its rows below data, as SQuAD's files have."""
    return (
        isinstance(document, dict) and isinstance(document.get("data"), list) and set(document) <= {"data", "version"}
    )


def _are_articles(values: list[Any], nested: bool) -> bool:
    """Return whether rows are articles of SQuAD, not rows with a column paragraphs: the first one decides.

    nested: whether they were below data.
    """
    first = values[0] if values and isinstance(values[0], dict) else {}
    paragraphs = first.get("paragraphs")
    if not isinstance(paragraphs, list) or not all(isinstance(paragraph, dict) for paragraph in paragraphs):
        return False
    if not paragraphs:
        return _has_text_alone(first)
    return nested or any("qas" in paragraph for paragraph in paragraphs)


def _has_text_alone(article: dict[str, Any]) -> bool:
    return set(article) <= {"title", "paragraphs"}


class JsonDocument(Data):
    """JSON that is an array of rows, a row, or SQuAD's {"data": ...} with questions as rows; it is read at once."""

    def __init__(self, path: Path, document: Any) -> None:
        super().__init__(path)
        nested = _is_nested(document)
        values = document["data"] if nested else document if isinstance(document, list) else [document]
        if _are_articles(values, nested):
            questions = [row for number, article in enumerate(values, 1) for row in self._questions(number, article)]
            if questions or all(map(_has_text_alone, values)):  # else there is more to read than questions
                values = questions
        self.rows = [
            Record(number, value)
            if isinstance(value, dict)
            else Record(number, {}, json.dumps(value)[:KEPT], "is JSON, but no object with columns")
            for number, value in enumerate(values, 1)
        ]
        good = next((record for record in self.rows if record.values), None)
        if good is None and self.rows:
            raise DataError(f"{path}: row 1 {self.rows[0].problem or 'has no columns'}")
        self.columns = list(good.values) if good else []
        self.check_columns()

    def _questions(self, number: int, article: Any) -> list[dict[str, Any]]:
        """Return the questions of an article of SQuAD as rows."""
        try:
            return [
                {
                    **({"id": qa["id"]} if "id" in qa else {}),
                    "question": qa["question"],
                    "context": paragraph["context"],
                    **(
                        {
                            "answers": {
                                key: [answer[key] for answer in qa["answers"]] for key in ("text", "answer_start")
                            }
                        }
                        if "answers" in qa
                        else {}
                    ),
                }
                for paragraph in article["paragraphs"]
                for qa in paragraph["qas"]
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{self.path}: article {number} of data is not as SQuAD has it (paragraphs, context, qas, question): "
                f"{type(error).__name__}: {error}"
            ) from None

    def estimate(self) -> int:
        return len(self.rows)

    def places(self, chunk_rows: int) -> list[Place]:
        total = len(self.rows)
        return [Place(first, first + 1, min(chunk_rows, total - first)) for first in range(0, total, chunk_rows)]

    def read(self, place: Place) -> list[Record]:
        return self.rows[place.offset : place.offset + place.rows]

    def payload(self, records: Sequence[Record], added: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
        return _json_payload(records, added, names)

    def join(self, target: IO[bytes], payloads: Iterable[bytes], names: Sequence[str]) -> None:
        before = b"[\n"
        for payload in payloads:
            if payload:
                target.write(before + payload[:-1].replace(b"\n", b",\n"))
                before = b",\n"
        target.write(b"\n]\n" if before == b",\n" else b"[]\n")


def _open_json(path: Path) -> Data:
    """Open JSON lines, or JSON as a whole: its content tells, not its name."""
    with path.open("rb") as stream:
        mark = stream.read(len(MARK)) == MARK
        stream.seek(len(MARK) if mark else 0)
        lines = (line for line in iter(lambda: stream.readline(MOST_BYTES), b"") if line.strip())
        first = next(lines, b"").strip()
        alone = not next(lines, b"")
    if not first:
        return JsonLines(path)
    try:
        document = parse_json(first)
    except DataError:
        pass  # the first line of several that are one value, or a broken row
    else:
        several = isinstance(document, list) or _is_nested(document)
        return JsonDocument(path, document) if alone and several else JsonLines(path)
    if first[:1] not in b"[{" or (path.stat().st_size > MOST_BYTES and first[:1] == b"{"):
        return JsonLines(path)
    try:
        document = parse_json(path.read_bytes()[len(MARK) if mark else 0 :])
    except DataError as error:
        if first[:1] == b"[":
            raise DataError(f"{path} {error}") from None
        return JsonLines(path)
    return JsonDocument(path, document)


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
        self.check_columns()
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
                    try:
                        self.cached = group, self.file.read_row_group(group)
                    except self.arrow.ArrowException as error:
                        raise DataError(f"{self.path} is damaged: {str(error).splitlines()[0][:200]}") from error
                first = max(place.offset, begin)
                parts.append(self.cached[1].slice(first - begin, min(end, place.offset + place.rows) - first))
            begin = end
        return self.arrow.concat_tables(parts)

    def read(self, place: Place) -> list[Record]:
        table = self.table(place)
        try:
            return [Record(place.line + row, values) for row, values in enumerate(table.to_pylist())]
        except (ValueError, OverflowError, self.arrow.ArrowException):  # such as a text that is not UTF-8
            return [_of_table(place.line + row, table.slice(row, 1)) for row in range(place.rows)]

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
            kind = self.arrow.list_(self.arrow.float32()) if name.endswith("_embedding") else kind
            table = table.append_column(name, self.arrow.array([extra.get(name) for extra in added], type=kind))
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


def _of_table(line: int, table: Any) -> Record:
    try:
        return Record(line, table.to_pylist()[0])
    except Exception as error:  # of pyarrow or of Python, as the type of the column has it
        return Record(line, {}, "", f"cannot be read: {error}")


def open_data(path: Path) -> Data:
    """Open a file of rows by the end of its name. Raises DataError and OSError."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise DataError(
            f"{path} is no file of rows that is known: its name must end in one of {', '.join(FORMATS)} "
            "(CSV, JSON lines, JSON or Parquet)"
        )
    if not path.is_file():
        problem = "a directory" if path.is_dir() else "no regular file"
        raise DataError(f"{path} is {problem}: name a file" if path.exists() else f"there is no file {path}")
    with path.open("rb") as stream:
        begin = stream.read(32)
    for mark, problem in FOREIGN.items():
        if begin.startswith(mark):
            raise DataError(f"{path} {problem}")
    return {CSV: Csv, JSONL: _open_json, PARQUET: Parquet}[kind](path)


def describe(path: Path) -> dict[str, Any]:
    """Return {format, columns, bytes, rows (an estimate)} of a file. Raises DataError and OSError."""
    data = open_data(path)
    rows = data.estimate()
    if not rows:
        raise DataError(f"{path} is empty: there is no row in it")
    return {"format": FORMATS[path.suffix.lower()], "columns": data.columns, "bytes": path.stat().st_size, "rows": rows}


def place(source: object, number: int, line: int) -> str:
    """Return file and row for a message. number: of the row, from 1. line: where it begins."""
    return f"{source}, row {number}" + (f" (line {line})" if line != number else "")


def rows_of(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield (number from 1, row) of all rows. Raises DataError, also for a broken row and where there is none."""
    number = 0
    try:
        for number, record in enumerate(open_data(path), 1):
            if record.problem:
                raise DataError(f"{place(path, number, record.line)}: {record.problem}")
            yield number, record
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    if not number:
        raise DataError(f"{path} is empty: there is no row in it")


def placed(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file and row, values) of all rows. Raises DataError as rows_of."""
    for number, record in rows_of(path):
        yield place(path, number, record.line), dict(record.values)


def short(value: Any) -> str:
    """Return a value as JSON has it, cut where it is long."""
    return json.dumps(value, default=str)[:100]


def text_problem(values: Mapping[str, Any], columns: Iterable[str], may_be_empty: bool = False) -> str:
    """Return why a row has not a text in each of these columns; an empty string where it has."""
    for column in columns:
        if column not in values:
            return f"has no column {column}"
        value = values[column]
        if value is None:
            return f"has no value in the column {column}"
        if not isinstance(value, str):
            return f"has {short(value)} in the column {column}, where a text is expected"
        if not may_be_empty and is_blank(value):
            return f"has no text in the column {column}"
        if is_half(value):
            return f"has half of a character in the column {column}"
    return ""


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen."""
    return not text.strip() or (len(text) < 20 and not visible(text))


def is_half(text: str) -> bool:
    """Return whether a text has half of a character, which JSON can have and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


if __name__ == "__main__":  # by a Python that has pyarrow
    try:
        print(json.dumps(describe(Path(sys.argv[1]))))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
