"""Works: what collectives and messages return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work
from torch.distributed import DistBackendError

from amx_cluster_mpi.futures import Completions, Promise, depth
from amx_cluster_mpi.progress import Operation, Progress
from amx_cluster_mpi.watchdog import Call, Watchdog


class Begun(Work):
    """A collective that was begun.

    key: of its operation. completions: what completes futures whose callbacks are so deep.
    """

    def __init__(
        self,
        result: Sequence[torch.Tensor],
        progress: Progress,
        key: Any,
        operation: Operation,
        completions: Callable[[int], Completions],
    ) -> None:
        super().__init__()
        self.tensors = list(result)
        self.progress, self.key, self.operation, self.completions = progress, key, operation, completions
        self.promise: Promise | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended, and the callbacks of its future. Raises what went wrong."""
        seconds = timeout.total_seconds() if timeout else 0
        if not self.operation.ended and not self.progress.wait(self.key, self.operation, seconds or None):
            raise RuntimeError(f"a collective of backend mpi has not ended within {seconds:g} s")
        if self.promise is not None and depth() < self.promise.future.depth:
            self.promise.done.wait()
        if self.operation.error is not None:
            raise self.operation.error
        return True

    def synchronize(self) -> None:
        """Wait until it has ended."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether it has ended."""
        return self.operation.ended

    def is_success(self) -> bool:
        """Return whether it has ended without an error."""
        return self.operation.ended and self.operation.error is None

    def exception(self) -> BaseException | None:
        """Return what went wrong."""
        return self.operation.error

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that it has changed."""
        return self.tensors

    def get_future(self) -> Any:
        """Return a torch.futures.Future of the tensors."""
        with self.progress.lock:  # with which operations end
            if self.promise is None:
                self.promise = Promise(self.tensors, self.completions)
                if self.operation.ended:
                    self.promise.keep(self.operation.error, is_new=True)
                else:
                    self.operation.at_end = self._ended
        return self.promise.future

    def _ended(self) -> None:
        if self.promise is not None:
            self.promise.keep(self.operation.error)


class Message(Begun):
    """A send or a receive. call: what the watchdog sees while somebody waits for it."""

    def __init__(
        self,
        tensor: torch.Tensor,
        progress: Progress,
        operation: Operation,
        completions: Callable[[int], Completions],
        watchdog: Watchdog,
        call: Call,
    ) -> None:
        super().__init__([tensor], progress, operation, operation, completions)
        self.watchdog, self.awaited = watchdog, call

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended. Raises torch.distributed.DistBackendError when it has not in time, nor will."""
        seconds = (timeout.total_seconds() if timeout else 0) or self.awaited.timeout
        self.awaited.timeout = seconds
        self._watch()
        if not self.progress.wait(self.key, self.operation, seconds):
            self._give_up(self.watchdog.report(self.awaited))
        return super().wait()

    def get_future(self) -> Any:
        """Return a torch.futures.Future of the tensor."""
        future = super().get_future()
        self._watch()
        return future

    def _watch(self) -> None:
        with self.progress.lock:  # with which operations end
            if not self.operation.ended and self.awaited.give_up is None:
                self.awaited.give_up = self._give_up
                self.operation.at_end = self._ended
                self.watchdog.enter(self.awaited)

    def _give_up(self, report: str) -> None:
        self.progress.fail(self.key, self.operation, DistBackendError(report))

    def _ended(self) -> None:
        self.watchdog.leave(self.awaited)
        self.awaited.give_up = None  # which has the tensor
        super()._ended()

    def _source_rank(self) -> int:
        return int(self.operation.status.Get_source())


class All(Work):
    """Several works as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self.works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until all have ended."""
        for work in self.works:
            work.wait(*filter(None, [timeout]))
        return True

    def synchronize(self) -> None:
        """Wait until all have ended."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether all have ended."""
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        """Return whether all have ended without an error."""
        return all(work.is_success() for work in self.works)

    def exception(self) -> BaseException | None:
        """Return what went wrong with the first of them that failed."""
        return next((work.exception() for work in self.works if work.exception() is not None), None)

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that they have changed."""
        return [tensor for work in self.works for tensor in work.result()]

    def get_future(self) -> Any:
        """Return a torch.futures.Future of all tensors."""
        futures = [work.get_future() for work in self.works]
        return torch.futures.collect_all(futures).then(lambda _ended: self.result())
