"""Works: what a collective returns, done in the calling thread or on the rank's communication cores."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from amx_cluster_mpi import activity

# Seconds for which a wait looks again at once; from then on it leaves the processor to others between two looks.
EAGER = 0.002
PAUSE = 0.0005


def poll(is_done: Callable[[], bool], seconds: float | None) -> bool:
    """Wait until it is done, and tell whether it was within so many seconds (None: without an end)."""
    began = time.monotonic()
    while not is_done():
        waited = time.monotonic() - began
        if seconds is not None and waited > seconds:
            return False
        if waited > EAGER:
            time.sleep(PAUSE)
    return True


class Done(Work):
    """A collective that has ended."""

    def __init__(self, result: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.tensors = list(result)
        self.future: Any = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return at once."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def is_completed(self) -> bool:
        """Tell whether it has ended."""
        return True

    def is_success(self) -> bool:
        """Tell whether it has ended without an error."""
        return True

    def exception(self) -> BaseException | None:
        """Return what went wrong."""
        return None

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that it has changed."""
        return self.tensors

    def get_future(self) -> Any:
        """Return a torch.futures.Future of the tensors."""
        if self.future is None:
            self.future = torch.futures.Future()
            self.future.set_result(self.tensors)
        return self.future


class Pending(Done):
    """A collective that a communication thread does."""

    def __init__(self, result: Sequence[torch.Tensor], todo: Callable[[], None]) -> None:
        super().__init__(result)
        self.todo = todo
        self.is_inference = torch.is_inference_mode_enabled()  # which each thread is in or not
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.future = torch.futures.Future()

    def run(self) -> None:
        """Do it."""
        try:
            with torch.inference_mode(self.is_inference):
                self.todo()
        except BaseException as error:  # whatever it is, it belongs to who waits
            self.error = error
        self.todo = lambda: None  # it holds tensors
        self.ended.set()
        if self.error is None:
            self.future.set_result(self.tensors)
        elif isinstance(self.error, Exception):
            self.future.set_exception(self.error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended. Raises what went wrong."""
        seconds = timeout.total_seconds() if timeout else 0
        if not self.ended.wait(seconds if seconds > 0 else None):
            raise RuntimeError(f"a collective of backend mpi has not ended within {seconds} s")
        if self.error:
            raise self.error
        return True

    def synchronize(self) -> None:
        """Wait until it has ended."""
        self.wait()

    def is_completed(self) -> bool:
        """Tell whether it has ended."""
        return self.ended.is_set()

    def is_success(self) -> bool:
        """Tell whether it has ended without an error."""
        return self.ended.is_set() and self.error is None

    def exception(self) -> BaseException | None:
        """Return what went wrong."""
        return self.error


# Messages that have not ended: MPI reads and writes their memory, also where the script has dropped them.
UNDER_WAY: dict[int, Message] = {}
# How many of them there are at least when those that have ended meanwhile are let go.
FEW = 16


def keep(message: Message) -> None:
    """Keep a message, with its tensor, until it has ended."""
    if len(UNDER_WAY) >= FEW and (len(UNDER_WAY) & (len(UNDER_WAY) - 1)) == 0:
        for other in list(UNDER_WAY.values()):
            other.is_completed()
    UNDER_WAY[id(message)] = message


def give_up_receiving() -> None:
    """Take back what was to be received, and never was."""
    for message in list(UNDER_WAY.values()):
        if message.arrived and not message.is_completed():
            message.request.Cancel()
            message.request.Wait()


class Message(Done):
    """A send or a receive, which goes on whenever MPI is called.

    memory: what MPI reads or writes. arrived: what is done when it has been received, None of a send.
    """

    def __init__(
        self,
        request: Any,
        status: Any,
        tensor: torch.Tensor,
        arrived: Callable[[], None] | None,
        name: str,
        timeout: float,
        memory: torch.Tensor,
    ) -> None:
        super().__init__([tensor])
        self.request, self.status, self.arrived = request, status, arrived
        self.name, self.timeout = name, timeout
        self.memory: torch.Tensor | None = memory
        self.completed = False
        keep(self)

    def is_completed(self) -> bool:
        """Tell whether it has ended."""
        if not self.completed and self.request.Test(self.status):
            self.completed = True
            activity.note_end()
            UNDER_WAY.pop(id(self), None)
            if self.arrived:
                self.arrived()
            self.memory = None
        return self.completed

    def is_success(self) -> bool:
        """Tell whether it has ended."""
        return self.is_completed()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended. Raises RuntimeError when it has not in time."""
        asked = timeout.total_seconds() if timeout else 0
        seconds = asked if asked > 0 else self.timeout
        if not poll(self.is_completed, seconds):
            raise RuntimeError(f"{self.name} has not ended within {seconds:g} s")
        return True

    def synchronize(self) -> None:
        """Wait until it has ended."""
        self.wait()

    def get_future(self) -> Any:
        """Return a torch.futures.Future of the tensor."""
        self.wait()
        return super().get_future()

    def _source_rank(self) -> int:
        return int(self.status.Get_source())


class All(Done):
    """Several works as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__([tensor for work in works for tensor in work.result()])
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
        """Tell whether all have ended."""
        return all(work.is_completed() for work in self.works)

    def get_future(self) -> Any:
        """Return a torch.futures.Future of all tensors."""
        self.wait()
        return super().get_future()


class CommunicationThread:
    """Does collectives one after another on the cores that the plan gives to communication."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = list(cpus)
        self.queue: queue.SimpleQueue[Pending] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="mpi-collectives", daemon=True).start()

    def do(self, work: Pending) -> Pending:
        """Have the work done after those before it."""
        self.queue.put(work)
        return work

    def drain(self) -> None:
        """Wait until all that was to be done has been done."""
        self.do(Pending([], lambda: None)).wait()

    def _run(self) -> None:
        os.sched_setaffinity(threading.get_native_id(), self.cpus)
        while True:
            self.queue.get().run()
