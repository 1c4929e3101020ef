# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of rows of users' files: texts, labels, targets and answers. It runs on hosts, with rows.py alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data.rows import (
    TEXT_COLUMNS,
    DataError,
    is_half,
    open_data,
    place,
    rows_of,
    short,
    text_problem,
    visible,
)

QA_COLUMNS = ("question", "context", "answers")
LABEL = "label"
# Texts that belong together, and one that does not belong to the first, which files may have besides.
RELATED, NEGATIVE = ("query", "document"), "negative"
CLASSIFICATION, REGRESSION, QA, AUTO = "classification", "regression", "qa", "auto"
# Numbers as they are written in files: what float() takes besides (nan, 1_000) is none.
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"-?[0-9]{1,18}")
# As people and spreadsheets write them: 1,5 and 1.234,5 and 1 000 and $3.20 and 10 %.
AMOUNT = re.compile(
    r"(?=.*[0-9])[+\-\u2212]?\s*[$\u20ac\xa3\xa5]?\s*([0-9]{1,3}([.,'\u2019\s][0-9]{3})+|[0-9]*)([.,][0-9]+)?"
    r"\s*[$\u20ac\xa3\xa5%\u2030]?"
)
# What pandas, SQL and spreadsheets (#N/A, #REF!) write for a value that is missing; where all others are numbers, these
# are no classes, either.
MISSING = re.compile(r"nan|<na>|nat|null|\\n|#(n/a|[a-z0-9/]+[!?])", re.IGNORECASE)
NO_NUMBERS = (
    "na",
    "n/a",
    "n.a.",
    "none",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "-infinity",
    "?",
    "-",
    "--",
    ".",
    "missing",
)
# The square of a greater error is infinite in fp32.
LARGEST = 1e18


@dataclass
class Table:
    """Columns of rows. source: a file, or what they are called in messages. lines: of the file, where it is one."""

    source: str
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, index: int) -> str:
        """Return file and row of an entry."""
        return place(self.source, index + 1, self.lines[index] if self.lines else index + 1)

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (file and row, values)."""
        for index, values in enumerate(zip(*self.columns.values())):
            yield self.where(index), dict(zip(self.columns, values))


def named(columns: Sequence[str]) -> str:
    """Return columns for a message: with quotes where a name has what cannot be seen."""
    return ", ".join(name if name == visible(name) and not is_half(name) else repr(name) for name in columns)


def choose_columns(
    task: str, splits: Mapping[str, Sequence[str]], texts: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return (the task, the columns with texts) for data with these columns by split.

    task: AUTO for that of the columns. texts: those that are needed; empty for the first of TEXT_COLUMNS. Raises
    DataError.
    """
    if task == QA or (task == AUTO and not texts and all(set(QA_COLUMNS) <= set(names) for names in splits.values())):
        for split, names in splits.items():
            missing = [column for column in QA_COLUMNS if column not in names]
            if missing:
                raise DataError(f"{split} data lack {', '.join(missing)}; they have: {named(names)}")
        return QA, QA_COLUMNS
    candidates = [tuple(texts)] if texts else list(TEXT_COLUMNS)
    for split, names in splits.items():
        candidates = [columns for columns in candidates if set(columns) <= set(names)]
        if not candidates or LABEL not in names:
            wanted = " and ".join(texts) or "text, or sentence1 and sentence2,"
            raise DataError(f"{split} data need the columns {wanted} and {LABEL}, but have: {named(names)}")
    return task, candidates[0]


def read_table(path: Path, columns: Sequence[str], most: int = 0) -> Table:
    """Return these columns of the first `most` rows of a file, 0 for all. Raises DataError for a row without them."""
    lines: list[int] = []
    kept: dict[str, list[Any]] = {column: [] for column in columns}
    for number, record in rows_of(path):
        for column in columns:
            if column not in record.values:
                raise DataError(f"{place(path, number, record.line)}: has no column {column}")
            kept[column].append(record.values[column])
        lines.append(record.line)
        if number == most:
            break
    return Table(str(path), kept, lines)


def check_texts(table: Table, columns: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise DataError for a row without a text in each of these columns."""
    for where, values in table.rows():
        problem = text_problem(values, columns, may_be_empty)
        if problem:
            raise DataError(f"{where}: {problem}")


# ----------------------------------------------------------------------------------------------------------- labels


def check_labels(table: Table) -> None:
    """Raise DataError for a label that is missing or is neither text nor number, and where rows have both."""
    kinds: dict[str, str] = {}
    for index, value in enumerate(table.columns[LABEL]):
        problem, kind = "", "text"
        if value is None or (isinstance(value, str) and not visible(value)):
            problem = "has no label"
        elif isinstance(value, str):
            problem = "has half of a character in the label" if is_half(value) else ""
        elif isinstance(value, bool):
            kind = "true or false"
        elif isinstance(value, (int, float)):
            kind = "number"
            if not math.isfinite(value if isinstance(value, float) else 0):
                problem = f"has the label {value}, which is no finite number"
        else:
            problem = f"has the label {short(value)}, where a text or a number is expected"
        if not problem:
            kinds.setdefault(kind, table.where(index))
            if len(kinds) > 1:
                (first_kind, first), (other, _where) = kinds.items()
                problem = (
                    f"has the label {short(value)}, a {other}, and {first} a {first_kind}: give all labels one type"
                )
        if problem:
            raise DataError(f"{table.where(index)}: {problem}")


def target(value: Any) -> float | None:
    """Return a label as a number; None where it is not written as one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        return float(value) if DECIMAL.fullmatch(value.strip()) else None
    return float(value) if abs(value) < LARGEST else math.inf


def name_of(label: Any) -> str:
    """Return the name of a class: whole numbers without a point."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def is_regression(table: Table, task: str = AUTO) -> bool:
    """Return whether labels that check_labels takes are targets of a regression: decimal numbers.

    Raises DataError where that is ambiguous, and for a target that is no finite number.
    """
    labels = table.columns[LABEL]
    if task == CLASSIFICATION:
        return False
    numbers = [target(label) for label in labels]
    has_point = [
        number is not None and (isinstance(label, float) or not WHOLE.fullmatch(str(label).strip()))
        for label, number in zip(labels, numbers)
    ]
    if task != REGRESSION:
        others = [index for index, number in enumerate(numbers) if number is None]
        texts = {index: str(labels[index]).strip() for index in others}
        missing = [index for index in others if MISSING.fullmatch(texts[index])]
        none = [index for index in others if MISSING.fullmatch(texts[index]) or texts[index].lower() in NO_NUMBERS]
        numeric = len(none) == len(others) < len(labels)
        if (none and numeric) or (missing and len(none) < len(others)):
            first = none[0] if numeric else missing[0]
            reason = "and others are numbers" if numeric else "as programs write what is missing"
            raise DataError(
                f"{table.where(first)}: has the label {labels[first]!r}, {reason}: remove rows without a label, or set "
                f"task to {CLASSIFICATION} where it is a class"
            )
        if others and all(AMOUNT.fullmatch(text) for text in texts.values()):
            raise DataError(
                f"{table.where(others[0])}: has the label {labels[others[0]]!r}: write decimal numbers with a point "
                f"and nothing else (1234.5), or set task to {CLASSIFICATION} where they are classes"
            )
        if not any(has_point):
            return False
        fractions = [index for index, number in enumerate(numbers) if number is not None and number % 1]
        if not others and not fractions:
            first = has_point.index(True)
            raise DataError(
                f"{table.where(first)}: has the label {labels[first]}, and all are whole numbers: set task to "
                f"{CLASSIFICATION} where they are classes, to {REGRESSION} where they are amounts"
            )
        if others:
            raise DataError(
                f"{table.where(others[0])}: has the label {labels[others[0]]!r}, and others are decimal numbers: set "
                f"task to {CLASSIFICATION} where they are classes, else give each row a number"
            )
    check_targets(table)
    return True


def check_targets(table: Table) -> None:
    """Raise DataError for a label that is no finite number that a model in fp32 can be trained on."""
    for index, label in enumerate(table.columns[LABEL]):
        number = target(label)
        if number is None or not abs(number) < LARGEST:
            reason = "no number" if number is None else f"not below {LARGEST:g}"
            raise DataError(
                f"{table.where(index)}: has the label {short(label)}, which is {reason}: it cannot be a target"
            )


def classes(table: Table) -> list[str]:
    """Return the names of classes in the order of their numbers: whole numbers sort as such, all others as text.

    Raises DataError where there is one class alone, and for names that look the same or are the same whole number.
    """
    first: dict[str, int] = {}
    for index, label in enumerate(table.columns[LABEL]):
        first.setdefault(name_of(label), index)
    shown: dict[str, str] = {}
    for name, index in first.items():
        number = target(name)
        whole = number is not None and number.is_integer() and abs(number) < LARGEST
        other = shown.setdefault(str(int(number)) if number is not None and whole else visible(name), name)
        if other != name:
            problem = "are one number" if whole else "differ only by blanks"
            raise DataError(
                f"{table.where(index)}: has the label {name!r}, and {table.where(first[other])} has {other!r}, which "
                f"{problem}: write them alike"
            )
    if len(first) < 2:
        raise DataError(f"{table.source}: all {len(table)} rows have the label {next(iter(first))}: two are needed")
    return sorted(first, key=int) if all(WHOLE.fullmatch(name) for name in first) else sorted(first)


def check_known(table: Table, names: Sequence[str], source: str) -> None:
    """Raise DataError for a label whose name is not among those of `source`."""
    known = set(names)
    for index, label in enumerate(table.columns[LABEL]):
        if name_of(label) not in known:
            raise DataError(
                f"{table.where(index)}: label {name_of(label)!r} is not among the labels of {source}: "
                f"{', '.join(names[:20])}{', ...' * (len(names) > 20)}"
            )


# ---------------------------------------------------------------------------------------------------------- answers


def check_answers(table: Table, exact: bool = True) -> None:
    """Raise DataError for answers of another form than SQuAD's; `exact`: they must stand where they say."""
    for where, row in table.rows():
        problem = _problem_of_answers(row["answers"], row["context"], exact)
        if problem:
            raise DataError(f"{where}: {problem}")


def _problem_of_answers(answers: Any, context: str, exact: bool) -> str:
    if not isinstance(answers, Mapping) or not {"text", "answer_start"} <= set(answers):
        return f"answers must have text and answer_start, not {short(answers)}"
    texts, starts = answers["text"], answers["answer_start"]
    if not isinstance(texts, Sequence) or not isinstance(starts, Sequence) or isinstance(texts, str):
        return f"answers must have lists of text and answer_start, not {short(answers)}"
    if len(texts) != len(starts):
        return f"answers has {len(texts)} text and {len(starts)} answer_start"
    for text, start in zip(texts, starts):
        if not isinstance(text, str) or not visible(text):
            return f"has the answer {short(text)}, where a text is expected"
        if not isinstance(start, int) or isinstance(start, bool):
            return f"has answer_start {short(start)}, where a whole number is expected"
        if exact and (start < 0 or context[start : start + len(text)] != text):
            return f"answer {text!r} is not at {start} in the context"
    return ""


# ---------------------------------------------------------------------------------------------------- complete files


def training_tables(
    files: Mapping[str, Path], task: str = AUTO, texts: Sequence[str] = (), most: Mapping[str, int] | None = None
) -> tuple[str, tuple[str, ...], dict[str, Table]]:
    """Return (the task, the columns with texts, the tables by split) of files to train on, all of them checked.

    files: train, validation, or both. The task is CLASSIFICATION, REGRESSION or QA. most: rows that are used, by split.
    Raises DataError for what training would refuse of the files alone.
    """
    try:
        splits = {split: open_data(path).columns for split, path in files.items()}
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror or error}") from error
    for split, path in files.items():
        if not splits[split]:
            raise DataError(f"{path} is empty: there is no row in it")
    task, columns = choose_columns(task, splits, texts)
    used = columns if task == QA else (*columns, LABEL)
    tables = {split: read_table(path, used, (most or {}).get(split, 0)) for split, path in files.items()}
    return check_tables(tables, task, columns), columns, tables


def check_tables(
    tables: Mapping[str, Table], task: str, columns: Sequence[str], names: Sequence[str] = (), published: bool = False
) -> str:
    """Return the task of tables with these columns of texts, all rows checked. Raises DataError.

    names: of classes, where labels are their numbers. published: whether they are of a dataset that others have made:
    texts may be empty (some of QQP are), and answers are taken as they are.
    """
    for table in tables.values():
        check_texts(table, [column for column in columns if column != "answers"], may_be_empty=published)
        if task == QA:
            check_answers(table, exact=not published)
        else:
            check_labels(table)
    if task == QA:
        return QA
    source = tables.get("train") or tables["validation"]
    if not names and is_regression(source, task):
        for table in tables.values():
            check_targets(table)
        return REGRESSION
    if names or "train" in tables:
        known = list(map(str, range(len(names)))) or classes(source)
        for table in tables.values():
            check_known(table, known, "the training data")
    return CLASSIFICATION


def related_texts(path: Path, most: int = 0) -> dict[str, list[str]]:
    """Return the texts that belong together by column: RELATED, and NEGATIVE if the file has it, all rows checked.

    most: rows that are used, 0 for all. Raises DataError.
    """
    named = open_data(path).columns
    labels = [name for name in (LABEL, "score") if name in named]
    if labels:
        raise DataError(f"{path} has the column {labels[0]}, which is not read: keep rows that belong together only")
    columns = [*RELATED, NEGATIVE] if NEGATIVE in named else list(RELATED)
    table = read_table(path, columns, most)
    check_texts(table, columns)
    documents = len(set(table.columns[RELATED[1]]))
    if documents < 2:
        raise DataError(f"{path}: fewer than two documents differ: a model learns by comparing them")
    texts = {name: list(column) for name, column in table.columns.items()}
    belong = documents_by_query(texts)
    if NEGATIVE not in named and any(len(own) == documents for own in belong.values()):
        raise DataError(f"{path}: all documents belong to one query: a model learns from those that do not")
    for where, values in table.rows():
        if values.get(NEGATIVE) in belong[values[RELATED[0]]]:
            raise DataError(
                f"{where}: its {NEGATIVE} is a {RELATED[1]} of the same {RELATED[0]}, here or in another row"
            )
    return texts


def batch_problem(texts: Mapping[str, Sequence[str]], batch: int, is_distinct: bool, is_gathered: bool) -> str:
    """Return why embeddings cannot learn from batches of so many rows; empty where they can.

    texts: of related_texts. is_distinct: whether no batch may have a text twice. is_gathered: whether the documents of
    other ranks are compared as well.
    """
    if batch < 2 and NEGATIVE not in texts and not is_gathered:
        return "per_device_train_batch_size is 1: a batch needs documents of other rows to compare with"
    distinct = min(len(set(column)) for column in texts.values())
    if is_distinct and batch > distinct:
        return (
            f"per_device_train_batch_size is {batch}, and of {distinct} texts that differ no batch has one twice: set "
            f"at most {distinct}, or batch_sampler to batch_sampler"
        )
    return ""


def documents_by_query(texts: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the documents that belong to each query. texts: of related_texts."""
    belong: dict[str, set[str]] = {}
    for query, document in zip(*(texts[name] for name in RELATED)):
        belong.setdefault(query, set()).add(document)
    return belong
