"""Futures of operations, whose callbacks may wait for other operations, and call collectives.

A future's callbacks run in a thread for the futures of their group, in the order of the group's operations, and never
in the one that goes on with the operations. What a callback calls, it calls on another communicator than what its
script does, and futures that it asks for are completed by another thread: so all ranks' callbacks do the same in the
same order, whenever each of them runs, and may wait for what they began.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

# How deep in callbacks a thread is: 0 in the script itself.
_where = threading.local()


def depth() -> int:
    """Return how deep in callbacks of futures the calling thread is."""
    return getattr(_where, "depth", 0)


@contextlib.contextmanager
def _at(depth_of_callback: int) -> Iterator[None]:
    before, _where.depth = depth(), depth_of_callback
    try:
        yield
    finally:
        _where.depth = before


class Future(torch.futures.Future):
    """A future whose callbacks, and theirs, know how deep they are, in whichever thread they run."""

    def __init__(self, depth_of_callbacks: int) -> None:
        super().__init__()
        self.depth = depth_of_callbacks

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """Return a future of what the callback returns, or raises."""
        following = Future(self.depth)

        def run(_ended: Any) -> None:
            try:
                with _at(self.depth):
                    result = callback(self)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        super().add_done_callback(run)
        return following

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Register a callback that is called with this future."""

        def run(_ended: Any) -> None:
            with _at(self.depth):
                callback(self)

        super().add_done_callback(run)


class Completions:
    """Completes futures one after another in a thread of its own, which starts with the first."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.waiting = 0

    def put(self, complete: Callable[[], object]) -> None:
        """Add a call after those before it."""
        with self.lock:
            self.waiting += 1
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="mpi-futures", daemon=True)
                self.thread.start()
        self.queue.put(complete)

    def close(self) -> None:
        """End the thread after all that it was given."""
        with self.lock:
            if self.thread is not None:
                self.queue.put(None)

    def _run(self) -> None:
        while (complete := self.queue.get()) is not None:
            complete()
            with self.lock:
                self.waiting -= 1


class Promise:
    """The future of an operation, made when it is asked for, and completed in its turn."""

    def __init__(self, tensors: Any, completions: Callable[[int], Completions]) -> None:
        self.tensors, self.completions = tensors, completions
        self.future = Future(depth() + 1)
        self.done = threading.Event()

    def keep(self, error: BaseException | None, is_new: bool = False) -> None:
        """Complete the future: its operation has ended. is_new: nobody has it yet, nor gave it a callback."""
        completions = self.completions(self.future.depth)
        if is_new and not completions.waiting:
            self._complete(error)
        else:
            completions.put(functools.partial(self._complete, error))

    def _complete(self, error: BaseException | None) -> None:
        try:
            if error is None:
                self.future.set_result(self.tensors)
            else:
                self.future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        finally:
            self.done.set()
