# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of a batch prediction: a rank that computes its chunks of the data, and no other rank's.

    run_prediction.py --request JSON        as a rank of a job, which has AMX_CLUSTER_JOB and AMX_CLUSTER_HOST
    run_prediction.py --describe FILE       prints what the file is and which of its columns tasks read, as JSON

The request has: digest (of what it is), data (a path in the job directory), columns (those that the model reads),
predicted (those that are added), chunk_rows, hosts (those that it began with) and cell (models.load, engines.prepare).
A chunk that is there is not computed again. Rows that cannot be predicted on are kept in their chunk with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rows
import shards

# Digits of a score: those that precisions agree in.
DIGITS = 6


class Progress:
    """Reports how many rows this rank has: to the job's supervisor, with the observer's heartbeats."""

    def __init__(self, total: int, there: int) -> None:
        """Begin. total: rows of all chunks of this rank. there: rows of those that were there already."""
        self.told: dict[str, Any] = {"rows": there, "of": total, "first": there, "began": time.time()}
        self.done = there
        self.finished = False
        self.observer = getattr(sys.modules.get("_amx_cluster_observer"), "observer", None)
        self.report(0)

    def report(self, within: float) -> None:
        """Report the rows that are done, and those within the chunk that is not yet."""
        self.told = {**self.told, "rows": self.done + int(within), "time": time.time()}
        if self.observer is not None:
            self.observer.heartbeat.rows = self.told
            self.observer.activity.note()

    def finish(self, count: int) -> None:
        """Report that a chunk is written: from now on a failed job is worth being started again."""
        self.done += count
        self.report(0)
        if self.observer is not None:
            self.observer.activity.step()
            if not self.finished:  # at once: it may be killed before the next heartbeat
                self.observer.heartbeat.send()
        self.finished = True


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
        self.predicted = request["predicted"]
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
        self, records: Sequence[rows.Record], progress: Progress
    ) -> tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]:
        """Return (rows, what is predicted of each, broken rows), both in the order of the data."""
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
                    progress.report(count * min(1.0, entries / inputs.entries()))
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
    if record.problem:
        return record.problem
    for column in columns:
        if column not in record.values:
            return f"has no column {column}"
        value = record.values[column]
        if value is None:
            return f"has no value in the column {column}"
        if not isinstance(value, str):
            return f"has {json.dumps(value, default=str)[:100]} in the column {column}, where a text is expected"
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"has half of a character in the column {column}"
    return ""


def rejected(record: rows.Record) -> dict[str, Any]:
    """Return a broken row for the side file."""
    content: Any = record.content
    if not content:
        content = json.loads(json.dumps(dict(record.values), default=str))
    return {"line": record.line, "reason": record.problem, "row": content}


def run(request: Mapping[str, Any], job: Path, host: str, rank: int, local: int) -> None:
    """Compute the chunks of this rank. rank: over all hosts. local: on this host. Raises OSError, ValueError."""
    plan = json.loads((job / "plan.json").read_text(encoding="utf-8"))
    ranks = shards.ranks_of(plan)
    directory = job / shards.DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    data = rows.open_data(job / request["data"])
    places = shards.places(directory, data, request)
    mine = [chunk for chunk in range(len(places)) if shards.owner(chunk, request["hosts"], ranks) == (host, local)]
    there = shards.elsewhere(directory, ranks)
    there.update(chunk for chunk in mine if shards.is_there(directory, chunk, request["digest"]))
    left = [chunk for chunk in mine if chunk not in there]
    progress = Progress(
        sum(places[chunk].rows for chunk in mine), sum(places[chunk].rows for chunk in mine if chunk in there)
    )
    print(f"rank {rank} on {host}: {len(left)} of {len(mine)} chunks are left", flush=True)
    if not left:
        return
    instance = Instance(request, ranks[host], data.read(places[0]))
    # A chunk's time ends where the next one's begins: before it is written.
    began = time.monotonic()
    for chunk in left:
        records = data.read(places[chunk])
        good, added, broken = instance.predict(records, progress)
        payload = data.payload(good, added, request["predicted"])
        before, began = began, time.monotonic()
        shards.write_chunk(
            directory,
            chunk,
            request["digest"],
            payload,
            [rejected(record) for record in broken],
            rows=len(good),
            rank=rank,
            host=host,
            seconds=round(began - before, 6),
        )
        progress.finish(len(records))


def describe(path: Path) -> dict[str, Any]:
    """Return what rows.describe does, `sets` (the columns that tasks read, by task) and `predicted` (those added)."""
    import tasks

    return {**rows.describe(path), "sets": tasks.COLUMNS, "predicted": tasks.PREDICTED}


def main() -> None:
    parser = argparse.ArgumentParser(description="compute the chunks of one rank of a batch prediction")
    parser.add_argument("--request", type=json.loads, help="what is predicted, as JSON")
    parser.add_argument("--describe", type=Path, help="a file of rows to describe instead")
    options = parser.parse_args()
    if options.describe:
        try:
            print(json.dumps(describe(options.describe)))
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        return
    environ = os.environ
    run(
        options.request,
        Path(environ["AMX_CLUSTER_JOB"]),
        environ["AMX_CLUSTER_HOST"],
        int(environ["RANK"]),
        int(environ["LOCAL_RANK"]),
    )


if __name__ == "__main__":
    main()
