# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model that predicts rows: loaded once, on the cores of its rank, and asked as often as there is something to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import rows

# Digits of a score: those that precisions agree in.
DIGITS = 6


class Instance:
    """A model that predicts rows."""

    def __init__(self, request: Mapping[str, Any], instances: int, example: Sequence[rows.Record]) -> None:
        """Load and prepare the model. instances: of this host. example: rows by which static int8 is calibrated.

        Raises models.Unavailable for what cannot run here.
        """
        import engines
        import models
        import tasks

        self.tasks, self.unavailable = tasks, models.Unavailable
        self.cell = request["cell"]
        self.columns = request["columns"]
        self.length = self.cell.get("sequence_length")
        models.check_memory(self.cell, instances)
        self.loaded = models.load(self.cell)
        one = tasks.synthetic(self.loaded, self.cell["batch_size"], self.length, 0)
        calibration = []
        if self.cell.get("int8") == "static":
            usable = [record.values for record in example if not problem_of(record, self.columns)]
            calibration = [
                tasks.encode(self.loaded, usable[first : first + self.cell["batch_size"]], self.columns, self.length)
                for first in range(0, min(len(usable), 256), self.cell["batch_size"])
            ]
        self.prepared = engines.prepare(self.loaded, self.cell, one, calibration)

    def encode(self, records: Sequence[rows.Record]) -> tuple[Any, list[rows.Record], list[rows.Record]]:
        """Return (inputs, the rows that they are of, rows that cannot be encoded, with the problem)."""
        values = [record.values for record in records]
        fixed = self.prepared.fixed_shapes
        try:
            return self.tasks.encode(self.loaded, values, self.columns, self.length, fixed), list(records), []
        except self.unavailable:
            raise
        except Exception:
            good, broken = [], []
            for record in records:
                try:
                    self.tasks.encode(self.loaded, [record.values], self.columns, self.length, fixed)
                    good.append(record)
                except Exception as error:  # whatever the tokenizer raises, it is this row's
                    broken.append(rows.Record(record.line, record.values, "", f"cannot be encoded: {error}"))
            if not broken:  # each of them alone can be encoded
                raise
            if not good:
                return None, [], broken
            again = [record.values for record in good]
            return self.tasks.encode(self.loaded, again, self.columns, self.length, fixed), good, broken

    def predict(
        self, records: Sequence[rows.Record], report: Callable[[float], None]
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        """Return (rows, what is predicted of each, broken rows), both in the order of the data.

        report: is called with how many of the rows are done after each batch.
        """
        import torch

        problems = {record.line: problem_of(record, self.columns) for record in records}
        broken = [
            rows.Record(record.line, record.values, record.content, problems[record.line])
            for record in records
            if problems[record.line]
        ]
        good = [record for record in records if not problems[record.line]]
        added: list[dict[str, Any]] = []
        if good:
            inputs, good, more = self.encode(good)
            broken += more
            if good:
                entries, count = 0, len(records)

                def call(batch: Any) -> Any:
                    nonlocal entries
                    outputs = self.prepared(batch)
                    entries += batch.entries()
                    report(count * min(1.0, entries / inputs.entries()))
                    return outputs

                with torch.inference_mode():
                    fixed = self.prepared.fixed_shapes
                    outputs = self.tasks.in_batches(call, inputs, self.cell["batch_size"], fixed)
                values = [record.values for record in good]
                added = self.tasks.decode(self.loaded, outputs, inputs, values, self.columns)
        return good, [rounded(one) for one in added], sorted(broken, key=lambda record: record.line)


def rounded(predicted: Mapping[str, Any]) -> dict[str, Any]:
    """Return predicted columns with scores of so many digits that they can be read."""
    return {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in predicted.items()}


def problem_of(record: rows.Record, columns: Sequence[str]) -> str:
    """Return why a row cannot be predicted on, as far as the row itself tells; an empty string when it can."""
    return record.problem or rows.text_problem(record.values, columns)
