# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a report. A figure draws the rows of one, and the page, the CSV and the JSON have the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data.rows import csv_line
from ansible_collections.amx.cluster.plugins.module_utils._measure.report.sources import mapping, number, text
from ansible_collections.amx.cluster.plugins.module_utils._text import duration

MISSING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column. key: of a row, and in CSV and JSON, where values are as measured. form: how the page shows a value.

    Forms are text, name (text that stands on one line), int, figure, ratio, percent, share (a percentage that only all
    of it makes 100 %), seconds, milliseconds, bytes, gib and mb (bytes a second). path: where a result has the value,
    with dots between names; the key unless set.
    """

    key: str
    title: str
    form: str = "text"
    path: str = ""

    def read(self, result: Mapping[str, Any]) -> Any:
        """Return the value in a result; what is not of the column's form is None, or an empty text."""
        value: Any = result
        for name in (self.path or self.key).split("."):
            value = mapping(value).get(name)
        return text(value) if self.form in ("text", "name") else number(value)


def read_row(columns: Iterable[Column], result: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return the row of a result. own: the values that are not read from it as they are."""
    return {**{column.key: column.read(result) for column in columns if column.key not in own}, **own}


def grouped(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a column, or by those of several, in their order."""
    by_value: dict[Any, list[Row]] = {}
    for row in rows:
        by_value.setdefault(row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys), []).append(row)
    return by_value


def named(*keys: str, form: str = "text") -> tuple[Column, ...]:
    """Return columns of one form whose titles are their keys."""
    return tuple(Column(key, key, form) for key in keys)


# The columns that several tables have.
RESULTS = Column("results", "results")
THREADS = Column("threads_per_rank", "threads per rank", "int")
SPEED = Column("samples_per_second", "samples/s", "figure")


def spread_columns(name: str, title: str, form: str) -> tuple[Column, ...]:
    """Return the columns of a figure with its lowest and its highest value, name_low and name_high."""
    return (
        Column(name, title, form),
        Column(f"{name}_low", f"{title}, lowest", form),
        Column(f"{name}_high", f"{title}, highest", form),
    )


@dataclass(frozen=True)
class Table:
    """A table. name: of its CSV file. rows: {key of a column: value}, None or left out where there is none."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    note: str = ""

    def used(self) -> tuple[Column, ...]:
        """Return the columns that the page shows: with a value, and `results` only where there are several."""
        return tuple(
            column
            for column in self.columns
            if any(row.get(column.key) not in (None, "") for row in self.rows)
            and (column.key != "results" or len({row.get("results") for row in self.rows}) > 1)
        )

    def cells(self) -> list[list[str]]:
        """Return the rows as the page shows them, in the order of used()."""
        columns = self.used()
        return [[shown(row.get(column.key), column.form) for column in columns] for row in self.rows]

    def csv(self) -> str:
        """Return the table as CSV, with the keys as its first line and nothing for a missing value."""
        values = ([row.get(column.key) for column in self.columns] for row in self.rows)
        cells = (["" if value is None else str(value) for value in row] for row in values)
        return "".join(f"{csv_line(row)}\n" for row in [[column.key for column in self.columns], *cells])

    def to_json(self) -> dict[str, Any]:
        """Return the table as {title, columns: [{key, title}], rows, note}, every row with every key."""
        return {
            "title": self.title,
            "columns": [{"key": column.key, "title": column.title} for column in self.columns],
            "rows": [{column.key: row.get(column.key) for column in self.columns} for row in self.rows],
            "note": self.note,
        }


def shown(value: Any, form: str = "text") -> str:
    """Return a value for a person. form: as in Column."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if form in ("text", "name") or not isinstance(value, (int, float)):
        return str(value)
    return _FORMS.get(form, figure)(value)


def figure(value: float) -> str:
    """Return a figure with three digits that count, and without an exponent where it is of a usual size."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size > 8:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - size)}f}"


def data_size(value: float) -> str:
    """Return a number of bytes in the unit in which it is short: 4 KiB, 25 MiB."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{value / 1024**power:.3g} {unit}"
    return f"{value:.0f} B"


_FORMS: dict[str, Callable[[float], str]] = {
    "ratio": lambda value: f"{value:.2f}{TIMES}",
    "percent": lambda value: f"{value * 100:.0f} %",
    "share": lambda value: f"{min(value, 0.9999 if value < 1 else 1) * 100:.4g} %",
    "seconds": lambda value: duration(value) if value >= 10 else f"{value:.3g} s",
    "milliseconds": lambda value: f"{value * 1000:.4g} ms",
    "gib": lambda value: f"{value / 2**30:.2f} GiB",
    "mb": lambda value: f"{value / 1e6:.1f} MB/s",
    "bytes": data_size,
    "int": lambda value: f"{value:.0f}",
}
