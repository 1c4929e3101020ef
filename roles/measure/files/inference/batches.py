# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of several requests, put together into batches for one model: a batch costs little more than a row of it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import rows


class Busy(Exception):
    """So many rows wait already that no more are taken."""


class Broken(ValueError):
    """Rows of a request that cannot be predicted on. problems: {number of the row, from 0: why}."""

    def __init__(self, problems: dict[int, str]) -> None:
        super().__init__("; ".join(f"row {number} {problem}" for number, problem in problems.items()))
        self.problems = problems


Predict = Callable[
    [Sequence[rows.Record], Callable[[float], None]],
    "tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]",
]
"""As Instance.predict: rows, a function that is told of progress -> (rows, what is predicted of each, broken ones)."""


@dataclass
class _Request:
    values: Sequence[Any]
    answer: Future[list[dict[str, Any]]] = field(default_factory=Future)


class Batches:
    """Requests that wait for a model.

    `submit` may be called by any thread; `run` is called by one, that of the model: OpenMP's threads belong to the
    thread that starts them, and another one's would be further threads on the same cores.
    """

    def __init__(self, predict: Predict, batch_size: int, most: int) -> None:
        """batch_size: rows from which on no further request is added to a batch. most: rows that may wait."""
        self.predict, self.batch_size, self.most = predict, batch_size, most
        self.rows = 0  # that were predicted
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._count, self._lock = 0, threading.Lock()

    def submit(self, values: Sequence[Any]) -> Future[list[dict[str, Any]]]:
        """Return the coming predictions of a request's rows, in their order; its exception may be Broken.

        values: of each row, by column. Raises Busy.
        """
        request = _Request(values)
        with self._lock:
            if self._count and self._count + len(values) > self.most:
                raise Busy
            self._count += len(values)
        self._waiting.put(request)
        return request.answer

    def close(self) -> None:
        """Have `run` return, once what was submitted before is answered."""
        self._waiting.put(None)

    def run(self) -> None:
        """Answer requests until `close`."""
        while True:
            first = self._waiting.get()
            if first is None:
                return
            batch, closed = self._more(first)
            self._answer(batch)
            if closed:
                return

    def _more(self, first: _Request) -> tuple[list[_Request], bool]:
        """Return the next batch, of what waits already, and whether `close` was called meanwhile."""
        batch, count = [first], len(first.values)
        while count < self.batch_size:
            try:
                one = self._waiting.get_nowait()
            except queue.Empty:
                break
            if one is None:
                return batch, True
            batch.append(one)
            count += len(one.values)
        return batch, False

    def _answer(self, batch: Sequence[_Request]) -> None:
        with self._lock:
            self._count -= sum(len(request.values) for request in batch)
        batch = [request for request in batch if request.answer.set_running_or_notify_cancel()]
        values = [row for request in batch for row in request.values]
        if not batch:
            return
        try:
            records = [rows.Record(number, value) for number, value in enumerate(values)]
            good, added, broken = self.predict(records, lambda _done: None)
        except Exception as error:  # whatever the model raises, others are answered all the same
            for request in batch:
                request.answer.set_exception(error)
            return
        predicted = {record.line: one for record, one in zip(good, added)}
        problems = {record.line: record.problem for record in broken}
        first = 0
        for request in batch:
            numbers = range(first, first + len(request.values))
            first += len(request.values)
            mine = {number - numbers.start: problems[number] for number in numbers if number in problems}
            if mine:
                request.answer.set_exception(Broken(mine))
            else:
                self.rows += len(request.values)
                request.answer.set_result([predicted[number] for number in numbers])
