"""Progress of what was begun, whichever call the rank makes next.

An operation is a generator: it begins non-blocking calls of MPI one after another and yields the request of each. One
thread of the process tests the requests; so does every thread that waits, so that a synchronous collective costs no
change of threads. Between two looks at requests that do not move it sleeps, for a share of the time that it has waited.

Collectives of one communicator are done in the order of their calls, as MPI needs it. Communicators, and messages from
one rank to another, do not wait for each other.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed import DistBackendError

from amx_cluster_mpi import activity
from amx_cluster_mpi.library import MPI
from amx_cluster_mpi.watchdog import Call, Watchdog

# Seconds without movement for which a thread that waits looks again at once, and then lets others have the processor.
AT_ONCE = 0.00005
EAGER = 0.002
# From then on it sleeps for this share of the time without movement, in seconds not less and not more than these.
SHARE = 0.005
LEAST, MOST = 0.00002, 0.005
# Of how many looks of a thread that waits for one operation one is at all others, too.
OTHERS = 8


def poll(is_done: Callable[[], bool], seconds: float | None) -> bool:
    """Wait until it is done, and tell whether it was within so many seconds (None: indefinitely)."""
    began = time.monotonic()
    while not is_done():
        waited = time.monotonic() - began
        if seconds is not None and waited > seconds:
            return False
        rest(waited, EAGER, time.sleep)
    return True


def rest(waited: float, eager: float, sleep: Callable[[float], object]) -> None:
    """Leave the processor to others, after so many seconds without movement."""
    if waited > eager:
        sleep(min(max(waited * SHARE, LEAST), MOST))
    elif waited > AT_ONCE:
        os.sched_yield()


def _given_up(error: BaseException) -> DistBackendError:
    return DistBackendError(f"an earlier collective of this group was given up: {error!r}")


def use_all_cpus() -> None:
    """Run the calling thread on all CPUs of the rank (amx_cluster/cpus.py).

    It has those of the thread that has started it, and OpenMP binds the main thread to one.
    """
    thread, listed = threading.get_native_id(), os.environ.get("AMX_CLUSTER_CPUS", "").partition(":")[2]
    if listed and len(os.sched_getaffinity(thread)) == 1:
        with contextlib.suppress(OSError, ValueError):
            os.sched_setaffinity(thread, {int(cpu) for cpu in listed.split(",")})


class Operation:
    """Calls of MPI that belong together, and how far they are.

    steps: yields a request after each call. call: what the watchdog sees of a collective as soon as it is called.
    status: of a message's request. target: the rank that a message is sent to.
    """

    def __init__(
        self, steps: Iterator[Any], call: Call | None = None, status: Any = None, target: int | None = None
    ) -> None:
        self.steps: Any = steps
        self.call, self.status, self.target = call, status, target
        self.request: Any = None
        self.is_inference = torch.is_inference_mode_enabled()  # which each thread is in or not
        self.ended = False
        self.error: BaseException | None = None
        # What MPI may still use, where something else than an error has ended it.
        self.lost: Any = None
        # Called with the lock held: it may neither wait nor call what the script has given.
        self.at_end: Callable[[], object] | None = None

    def advance(self) -> bool:
        """Go as far as MPI is, and tell whether that was any further."""
        moved = False
        try:
            while True:
                go_on = self.steps.__next__
                try:
                    if self.request is not None and not self.request.Test(self.status):
                        return moved
                except MPI.Exception as error:
                    go_on = functools.partial(self.steps.throw, error)  # which says what was called
                moved = True
                if self.request is not None:  # a part of it has ended
                    activity.note_end()
                if torch.is_inference_mode_enabled() == self.is_inference:
                    self.request = go_on()
                else:
                    with torch.inference_mode(self.is_inference):
                        self.request = go_on()
        except StopIteration:
            self.end(None)
        except Exception as error:  # it belongs to who waits
            self.end(error)
        except BaseException as error:  # of the handler of a signal: it belongs to the script
            self.lost = self.request, self.steps
            self.end(error)
            raise
        return True

    def end(self, error: BaseException | None) -> None:
        """Note that it has ended."""
        self.steps = self.request = None  # they hold tensors
        self.error, self.ended = error, True
        if self.at_end is not None:
            self.at_end()


class Progress:
    """The operations of this process. cpus: where its thread runs, all CPUs of the rank by default.

    Raises RuntimeError where the thread cannot run there.
    """

    def __init__(self, watchdog: Watchdog, cpus: Sequence[int] = ()) -> None:
        self.watchdog = watchdog
        self.lock = threading.Lock()
        # Operations under way, by communicator or, of a message, by itself: the first of each has been begun.
        self.queues: dict[Any, collections.deque[Operation]] = {}
        self.moved = time.monotonic()
        # The waits of threads, which go on with all operations themselves.
        self.waits: set[object] = set()
        # What MPI may still read and write, of operations that were given up; and why, by their keys.
        self.given_up: list[Any] = []
        self.broken: dict[Any, BaseException] = {}
        self.wake = threading.Event()
        # A thread on cores of its own takes none from those who compute.
        self.eager = EAGER if cpus else 0.0
        self.error: BaseException | None = None
        started = threading.Event()
        thread = threading.Thread(target=self._run, args=(list(cpus), started), name="mpi-progress", daemon=True)
        thread.start()
        started.wait()
        # A process that is forked while a thread is within MPI would hang there at its end.
        os.register_at_fork(
            before=self.lock.acquire, after_in_parent=self.lock.release, after_in_child=self.lock.release
        )
        if self.error is not None:
            allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
            raise RuntimeError(
                f"the communication thread cannot run on CPU {', '.join(map(str, cpus))} ({self.error}), and this "
                f"process runs on {allowed}: does the host still have the cores of the plan? Start the job with "
                "playbooks/train.yml, which plans anew, or set comm_cores: 0 in the job file"
            )

    def begin(self, key: Any, operation: Operation, is_waited_for: bool) -> None:
        """Begin an operation, after those of the same key. is_waited_for: the caller does so at once."""
        with self.lock:
            if self.error is not None:
                raise self._failure()
            if key in self.broken:
                operation.end(_given_up(self.broken[key]))
                return
            queue = self.queues.setdefault(key, collections.deque())
            queue.append(operation)
            self.watchdog.count(operation.call)
            self.moved = time.monotonic()
            if len(queue) == 1:
                self.watchdog.enter(operation.call)
                self._go_on(key, queue)
        if not is_waited_for and not self.wait(key, operation, AT_ONCE):
            self.wake.set()

    def wait(self, key: Any, operation: Operation, seconds: float | None) -> bool:
        """Go on with what is under way until an operation has ended, and tell whether it did in so many seconds."""
        began, looks, mine = time.monotonic(), 0, object()
        self.waits.add(mine)
        try:
            while not operation.ended:
                looks += 1
                if self.lock.acquire(False):
                    try:
                        if self._advance(key if looks % OTHERS else None):
                            continue
                    finally:
                        self.lock.release()
                now = time.monotonic()
                if seconds is not None and now - began > seconds:
                    return operation.ended
                rest(now - max(self.moved, began), EAGER, time.sleep)
        finally:
            self.waits.discard(mine)
            if self.queues and not self.waits:
                self.wake.set()
        return True

    def fail(self, key: Any, failed: Operation, error: BaseException) -> None:
        """End an operation of this key that MPI has not ended, nor will, and those that wait for it."""
        with self.lock:
            queue = self.queues.get(key)
            if queue and not failed.ended:
                self._go_on(key, queue)
            if not queue or failed.ended:
                return
            if queue[0].status is not None and queue[0].target is None:
                queue[0].request.Cancel()
            self.given_up.append((queue[0].request, queue[0].steps))
            self.broken[key] = error
            for operation in list(queue):
                operation.end(error)
            self._go_on(key, queue)

    def drain(self, group: str = "") -> None:
        """Wait until the collectives of a group, or of all, have ended."""
        for key, queue in list(self.queues.items()):
            for operation in list(queue):
                if operation.call is not None and group in ("", operation.call.group):
                    self.wait(key, operation, None)

    def is_sending(self, rank: int) -> bool:
        """Return whether a message to a rank is under way."""
        return any(operation.target == rank for queue in list(self.queues.values()) for operation in list(queue))

    def give_up_receiving(self) -> None:
        """Take back what was to be received, and never was."""
        with self.lock:
            for queue in self.queues.values():
                if queue[0].status is not None and queue[0].target is None and not queue[0].ended:
                    queue[0].request.Cancel()

    def close(self) -> None:
        """Call MPI no more, and keep what it may still use."""
        if self.lock.acquire(timeout=1):  # the handler of a signal may have interrupted who has it
            try:
                self.given_up += [(queue[0].request, queue[0].steps) for queue in self.queues.values()]
                self.queues.clear()
            finally:
                self.lock.release()

    def _failure(self) -> RuntimeError:
        return RuntimeError(f"the communication thread has ended: {type(self.error).__name__}: {self.error}")

    def _advance(self, only: Any = None) -> bool:
        """Look at the operations under way, of one key or of all, and tell whether any has moved. Needs the lock."""
        moved = False
        for key in [only] if only is not None else list(self.queues):
            queue = self.queues.get(key)
            if queue is not None and self._go_on(key, queue):
                moved = True
        if moved:
            self.moved = time.monotonic()
        return moved

    def _go_on(self, key: Any, queue: collections.deque[Operation]) -> bool:
        moved = False
        while queue[0].ended or self._advanced(key, queue[0]):
            moved = True
            if queue[0].ended:
                self.watchdog.leave(queue.popleft().call)
                if not queue:
                    del self.queues[key]
                    break
                self.watchdog.enter(queue[0].call)
        return moved

    def _advanced(self, key: Any, operation: Operation) -> bool:
        try:
            return operation.advance()
        except BaseException as error:
            # MPI may have a part of it alone: what follows on its communicator would meet another collective elsewhere.
            self.given_up.append(operation.lost)
            self.broken.setdefault(key, error)
            for queued in self.queues.get(key, ()):
                if not queued.ended:
                    queued.end(_given_up(error))
            raise

    def _run(self, cpus: list[int], started: threading.Event) -> None:
        try:
            if cpus:
                os.sched_setaffinity(threading.get_native_id(), cpus)
            else:
                use_all_cpus()
            started.set()
            while True:
                self.wake.wait()
                self.wake.clear()
                while self.queues and not self.waits:
                    with self.lock:
                        moved = self._advance()
                    if not moved:
                        rest(time.monotonic() - self.moved, self.eager, self.wake.wait)
                        self.wake.clear()
        except BaseException as error:
            with self.lock:
                self.error = error
                for operation in [operation for queue in self.queues.values() for operation in queue]:
                    self.given_up.append((operation.request, operation.steps))
                    operation.end(self._failure())
                    self.watchdog.leave(operation.call)
                self.queues.clear()
            started.set()
