# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of several requests, put together into batches for one model: a batch costs little more than a row of it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from ansible_collections.amx.cluster.plugins.module_utils._data import rows


class Busy(Exception):
    """Refusal of a request, as too much waits already."""


class TooMuch(ValueError):
    """A request whose rows are more entries of the model than one may have."""


class Broken(ValueError):
    """Rows of a request that cannot be predicted on. problems: {number of the row, from 0: why}."""

    def __init__(self, problems: dict[int, str]) -> None:
        super().__init__("; ".join(f"row {number} {problem}" for number, problem in problems.items()))
        self.problems = problems


class GivenUp(BaseException):
    """End of a batch for whose answers nobody waits any more. No Exception: it is no error of the model."""


class Beside(Protocol):
    """Work of the model's thread besides batches, step by step, while there is some."""

    wake: Callable[[], None]

    def busy(self) -> bool: ...

    def step(self) -> None: ...


Predict = Callable[
    [Sequence[rows.Record], Callable[[float], None]],
    "tuple[list[rows.Record], list[dict[str, Any]], list[rows.Record]]",
]
"""As Instance.predict: rows, a function that receives progress -> (rows, what is predicted of each, broken ones)."""


class Answer(Future):
    """The coming predictions of a request's rows. values: of each row, by column. since: when it came (monotonic)."""

    def __init__(self, values: Sequence[Any], since: float) -> None:
        super().__init__()
        self.values, self.since = values, since
        self.bytes = sum(sys.getsizeof(value) for row in values for value in row.values())
        self.entries = len(values)
        self.unwanted = False

    def cancel(self) -> bool:
        """Give it up, also while it is computed."""
        self.unwanted = True
        return super().cancel()


class Batches:
    """Requests that wait for a model.

    `submit` may be called by any thread; `run` is called by one, that of the model: OpenMP's threads belong to the
    thread that starts them, and another one's would be further threads on the same cores.
    """

    def __init__(
        self,
        predict: Predict,
        batch_size: int,
        most: int,
        most_bytes: int = 64 << 20,
        entries: Callable[[Sequence[Any]], int] = len,
        most_entries: int = sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
        beside: Beside | None = None,
    ) -> None:
        """batch_size: entries from which on no further request is added to a batch.

        most, most_bytes: rows, and the memory of their texts, that may wait. entries: returns how many entries of the
        model the rows of a request are, of which it may have `most_entries`. beside: a step of it follows each batch.
        """
        self.predict, self.batch_size, self.most, self.most_bytes = predict, batch_size, most, most_bytes
        self.entries, self.most_entries, self.clock = entries, most_entries, clock
        self.rows = 0  # that were predicted
        self.slowest = 0.0  # seconds of a call of the model
        self._waiting: deque[Answer] = deque()
        self._running: list[Answer] = []
        self._progress: float | None = None  # when the batch that runs was begun, or went on
        self._count = self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        self.beside = beside
        if beside is not None:
            beside.wake = self._wake

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def submit(self, values: Sequence[Any]) -> Answer:
        """Return the coming predictions of a request's rows, in their order; its exception may be Broken or TooMuch.

        values: of each row, by column. Raises Busy.
        """
        request = Answer(values, self.clock())
        with self._changed:
            full = self._count + len(values) > self.most or self._bytes + request.bytes > self.most_bytes
            if self._count and full:
                raise Busy
            self._count += len(values)
            self._bytes += request.bytes
            self._waiting.append(request)
            self._changed.notify()
        request.add_done_callback(self._forget)
        return request

    def _forget(self, request: Future[Any]) -> None:
        """Take a request that was given up out of those that wait."""
        assert isinstance(request, Answer)
        with self._changed:
            if request in self._waiting:
                self._waiting.remove(request)
                self._taken(request)

    def _taken(self, request: Answer) -> None:
        self._count -= len(request.values)
        self._bytes -= request.bytes

    @property
    def count(self) -> int:
        """The number of rows that wait."""
        return self._count

    def waited(self) -> float:
        """Return for how many seconds the oldest request waits for its answer; 0 when none does."""
        with self._changed:
            since = [request.since for request in (*self._running, *self._waiting) if not request.done()]
            since += [self._progress] if self._progress is not None else []
        return self.clock() - min(since) if since else 0.0

    def silent(self) -> float:
        """Return for how many seconds the model has computed on one batch of entries; 0 when it does nothing."""
        progress = self._progress
        return self.clock() - progress if progress is not None else 0.0

    def close(self) -> None:
        """End `run`, once what was submitted before is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Answer requests until `close`."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed and not self._steps():
                    self._changed.wait()
                if not self._waiting and not self._steps():
                    self._closed = False
                    return
                self._progress = began = self.clock()
            try:
                if self.beside is not None and self.beside.busy():
                    self.beside.step()
                    self.slowest = max(self.slowest, self.clock() - began)
                    self._progress = self.clock()
                self._answer(self._next())
            finally:
                with self._changed:
                    self._running, self._progress = [], None

    def _steps(self) -> bool:
        return self.beside is not None and self.beside.busy()

    def _next(self) -> list[Answer]:
        """Return the requests of the next batch, of what waits already."""
        count = 0
        while count < self.batch_size:
            with self._changed:
                if not self._waiting:
                    break
                request = self._waiting.popleft()
                self._taken(request)
            if not request.set_running_or_notify_cancel():
                continue
            with contextlib.suppress(Exception):  # whatever a tokenizer raises: prediction finds the row
                request.entries = self.entries(request.values)
            if request.entries > self.most_entries:
                request.set_exception(TooMuch(request.entries))
                continue
            with self._changed:
                self._running.append(request)
            count += request.entries
        return list(self._running)

    def _answer(self, batch: Sequence[Answer]) -> None:
        def report(_done: float) -> None:
            if all(request.unwanted for request in batch):
                raise GivenUp
            now = self.clock()
            self.slowest = max(self.slowest, now - (self._progress or now))
            self._progress = now

        values = [row for request in batch for row in request.values]
        if not batch:
            return
        records = [rows.Record(number, value) for number, value in enumerate(values)]
        try:
            good, added, broken = self.predict(records, report)
        except GivenUp as error:
            for request in batch:
                request.set_exception(error)
            return
        except Exception as error:  # whatever the model raises, others are answered all the same
            if len(batch) == 1:
                batch[0].set_exception(error)
            for request in batch if batch[1:] else ():  # each has its own error
                self._answer([request])
            return
        predicted = {record.line: answer for record, answer in zip(good, added)}
        problems = {record.line: record.problem for record in broken}
        first = 0
        for request in batch:
            numbers = range(first, first + len(request.values))
            first += len(request.values)
            mine = {number - numbers.start: problems[number] for number in numbers if number in problems}
            if mine:
                request.set_exception(Broken(mine))
            else:
                self.rows += len(request.values)
                request.set_result([predicted[number] for number in numbers])
