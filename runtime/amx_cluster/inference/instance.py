# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that predicts rows: loaded once, on the cores of its rank, and asked as often as there is something to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from amx_cluster.inference import engines, models, tasks
from amx_cluster.inference.loaded import Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._data import chats, rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models

# Digits of a score after the point: those that precisions agree in. By a ranker's score rows are sorted, of which many
# are near 0: it has all digits of fp32.
DIGITS, DIGITS_OF_FP32 = 6, 9


class Instance:
    """A model that predicts rows."""

    def __init__(
        self, cell: Mapping[str, Any], columns: Sequence[str], instances: int, example: Sequence[rows.Record]
    ) -> None:
        """Load and prepare the model. columns: those that it reads. instances: of this host.

        example: rows by which static int8 is calibrated. Raises Unavailable for what cannot run here.
        """
        self.cell = cell
        self.columns = columns
        self.length = self.cell.get("sequence_length")
        models.check_memory(self.cell, instances)
        self.loaded = models.load(self.cell)
        longest, new = self.loaded.longest(), self.loaded.new_tokens
        if longest is not None and new >= longest:
            raise Unavailable(f"{self.loaded.name} has {longest} positions, and new_tokens is {new}")
        length = min(self.length or 128, longest - new) if longest is not None else self.length
        batch = tasks.synthetic(self.loaded, self.cell["batch_size"], length, 0)
        calibration = []
        if self.cell.get("int8") == "static":
            usable = [record.values for record in example if not problem_of(record, self.columns, self.cell["task"])]
            calibration = [
                tasks.encode(self.loaded, usable[first : first + self.cell["batch_size"]], self.columns, self.length)
                for first in range(0, min(len(usable), 256), self.cell["batch_size"])
            ]
        self.prepared = engines.prepare(self.loaded, self.cell, batch, calibration)

    def encode(self, records: Sequence[rows.Record]) -> tuple[Any, list[rows.Record], list[rows.Record]]:
        """Return (inputs, the rows that they are of, rows that cannot be encoded, with the problem)."""
        fixed = self.prepared.fixed_shapes

        def encoded(some: Sequence[rows.Record]) -> Any:
            return tasks.encode(self.loaded, [record.values for record in some], self.columns, self.length, fixed)

        try:
            inputs = encoded(records)
            empty = without_tokens(inputs)
            if not empty:
                return inputs, list(records), []
            reason = f"has no tokens for the model in the column {self.columns[0]}: give it some text"
            broken = [replace(record, problem=reason) for number, record in enumerate(records) if number in empty]
            good = [record for number, record in enumerate(records) if number not in empty]
        except Unavailable:
            raise
        except Exception:
            good, broken = [], []
            for record in records:
                try:
                    encoded([record])
                    good.append(record)
                except Exception as error:  # whatever the tokenizer raises, it is this row's
                    broken.append(replace(record, problem=f"cannot be encoded: {error}"))
            if not broken:  # each of them alone can be encoded
                raise
        if not good:
            return None, [], broken
        inputs, good, unusable = self.encode(good)
        return inputs, good, broken + unusable

    @property
    def longest(self) -> int:
        """The tokens that the model reads of a text at once."""
        return int(self.length or self.loaded.longest() or 512)

    def entries(self, values: Sequence[Mapping[str, Any]]) -> int:
        """Return how many entries of the model rows are, at least: a question's context may be several."""
        if self.cell["task"] != "question-answering" or self.loaded.tokenizer is None:
            return len(values)
        length = self.longest
        stride = min(tasks.STRIDE, length // 4)
        texts = [row[column] for column in self.columns for row in values]
        encoded = self.loaded.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        count = 0
        for question, context in zip(encoded, encoded[len(values) :]):
            step = max(1, length - min(len(question), length // 2) - stride)
            count += max(1, -(-(len(context) - stride) // step))
        return count

    def predict(
        self, records: Sequence[rows.Record], report: Callable[[float], None]
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        """Return (rows, what is predicted of each, broken rows), both in the order of the data.

        report: is called with how many of the rows are done after each batch.
        """
        problems = {record.line: problem_of(record, self.columns, self.cell["task"]) for record in records}
        broken = [replace(record, problem=problems[record.line]) for record in records if problems[record.line]]
        good = [record for record in records if not problems[record.line]]
        added: list[dict[str, Any]] = []
        if good:
            good, added, unusable = self._outcome(good, report)
            broken += unusable
        return good, added, sorted(broken, key=lambda record: record.line)

    def _outcome(
        self, records: Sequence[rows.Record], report: Callable[[float], None]
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        """Return as predict does. Rows on which the model fails are found by halves; raises if it fails on all."""
        try:
            return self._predicted(records, report)
        except Unavailable:
            raise
        except Exception:
            if len(records) == 1:
                raise
            middle = len(records) // 2
            good: list[rows.Record] = []
            added: list[dict[str, Any]] = []
            broken: list[rows.Record] = []
            failed = 0
            for half in (records[:middle], records[middle:]):
                try:
                    parts = self._outcome(half, report)
                except Unavailable:
                    raise
                except Exception as error:  # whatever the model raises, it is of these rows
                    failed += 1
                    reason = f"cannot be predicted on: {type(error).__name__}: {error}"
                    parts = [], [], [replace(record, problem=reason) for record in half]
                good += parts[0]
                added += parts[1]
                broken += parts[2]
            if failed == 2:
                raise
            return good, added, broken

    def _predicted(
        self, records: Sequence[rows.Record], report: Callable[[float], None]
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        import torch

        inputs, good, broken = self.encode(records)
        if not good:
            return [], [], broken
        entries, count = 0, len(records)

        def call(batch: Any) -> Any:
            nonlocal entries
            outputs = self.prepared(batch)
            entries += batch.entries()
            report(count * min(1.0, entries / inputs.entries()))
            return outputs

        with torch.inference_mode():
            fixed = self.prepared.fixed_shapes
            outputs = tasks.in_batches(call, inputs, self.cell["batch_size"], fixed)
        lost = without_number(outputs, inputs)
        added = tasks.decode(self.loaded, outputs, inputs, [record.values for record in good], self.columns)
        for number, answer in enumerate(added):
            if not all(math.isfinite(value) for value in answer.values() if isinstance(value, float)):
                lost.add(number)
        reason = "cannot be predicted on: what the model computes of it is not a number (NaN or infinity)"
        broken += [replace(record, problem=reason) for number, record in enumerate(good) if number in lost]
        kept = [number for number in range(len(good)) if number not in lost]
        return [good[number] for number in kept], [rounded(added[number], self.cell["task"]) for number in kept], broken


def without_tokens(inputs: Any) -> set[int]:
    """Return which rows have no token that the model would read."""
    mask = inputs.get("attention_mask")
    if mask is None:
        return set()
    there = {row for row, tokens in zip(inputs.rows, mask.sum(dim=1).tolist()) if tokens}
    return set(inputs.rows) - there


def without_number(outputs: Mapping[str, Any], inputs: Any) -> set[int]:
    """Return which rows have outputs that are NaN or infinity: logits, and tokens chosen by such (-2).

    Minus infinity is a logit that a model masks. What is at padding does not count.
    """
    lost: set[int] = set()
    for name, tensor in outputs.items():
        there = tensor == -2 if name == "tokens" else tensor.isnan() | tensor.isposinf()
        if name == "embedding":
            there |= tensor.isneginf()
        if name in ("start_logits", "end_logits"):
            there &= inputs["attention_mask"][:, : tensor.shape[1]].bool()
        lost.update(row for row, is_lost in zip(inputs.rows, there.flatten(1).any(dim=1).tolist()) if is_lost)
    return lost


def rounded(predicted: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return predicted columns with scores of so many digits that they can be read."""

    def score(value: float) -> float:
        return float(f"{value:.{DIGITS_OF_FP32}g}") if task == known_models.RANKING else round(value, DIGITS)

    return {name: score(value) if isinstance(value, float) else value for name, value in predicted.items()}


def problem_of(record: rows.Record, columns: Sequence[str], task: str) -> str:
    """Return why a row cannot be predicted on, as far as the row itself tells; an empty string when it can."""
    values = {column: record.values.get(column) for column in columns}
    texts = [
        column for column, value in values.items() if not (chats.is_messages(value) or isinstance(value, tasks.Tokens))
    ]
    return record.problem or rows.text_problem(record.values, texts, task in known_models.OF_SENTENCES)
