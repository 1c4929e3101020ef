"""Watchdog of calls of MPI and their time: MPI itself waits for ever, and nothing can call it back.

A thread looks every second. A collective that waits for longer than NOTICE tells the other ranks of its group where it
is; so that a rank that gives up can say which of them have not come. Giving up raises an error where the script waits.
Where it waits within MPI itself, as for a new group, that ends the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from amx_cluster_mpi import activity
from amx_cluster_mpi.library import MPI

# Seconds between two looks, and after which a collective tells the others that it waits.
LOOK = 1.0
NOTICE = 3.0
# The exit code of a rank that has given up.
EXIT_CODE = 1
# What a rank tells of a collective that it will not call any more.
ENDED = "the end of its script"
# The place of messages among the collectives of a group: they are in no order with them.
MESSAGE = -1
# What a rank that ends without MPI_Finalize tells instead of a group.
LEFT = ""


@dataclass
class Call:
    """Call that this process is in: the ranks that it needs, its group, its number there, its name and the
    elements and type of its tensor.

    give_up: what is called, with the report, when it will not end; this process ends by default.
    """

    ranks: Sequence[int]
    group: str
    number: int
    name: str
    timeout: float
    tensor: tuple[int, Any] | None = None
    began: float = field(default_factory=time.monotonic)
    told: bool = False
    give_up: Callable[[str], object] | None = None

    def text(self) -> str:
        """Return what it is."""
        return self.name if self.tensor is None else f"{self.name} of {self.tensor[0]} {str(self.tensor[1])[6:]}"

    def label(self) -> str:
        """Return which one it is."""
        if self.number == MESSAGE:
            return self.name
        return f"{self.text()}, number {self.number} in the group of {of_ranks(self.ranks)}"


def of_ranks(ranks: Sequence[int]) -> str:
    """Return ranks in words, the first of them where there are many."""
    some = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
    return f"rank {some}" if len(ranks) == 1 else f"ranks {some}"


class Watchdog:
    """The calls of this process, and what others have told of theirs."""

    def __init__(self) -> None:
        self.rank = MPI.COMM_WORLD.rank
        self.comm: Any = None
        self.calls: dict[int, Call] = {}
        # The last call that each rank has told of in each group: {(rank, group): (number, name and on what)}.
        self.heard: dict[tuple[int, str], tuple[int, str]] = {}
        # The last call of this process in each group.
        self.last: dict[str, int] = {}
        # The last of theirs, of ranks that end without MPI_Finalize; and which of them have left at once.
        self.left: dict[int, dict[str, int]] = {}
        self.gone: set[int] = set()
        # Tells whether this process still sends a message to a rank.
        self.is_sending: Callable[[int], bool] = lambda _rank: False
        self.ended = False
        self.sent: list[Any] = []
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.stopped = False
        # As in Progress: a forked process is not to hang.
        os.register_at_fork(
            before=self.lock.acquire, after_in_parent=self.lock.release, after_in_child=self.lock.release
        )
        threading.Thread(target=self._run, name="mpi-watchdog", daemon=True).start()

    @contextlib.contextmanager
    def watching(self, call: Call) -> Iterator[None]:
        """Watch a call as long as it lasts."""
        self.last[call.group] = call.number
        self.enter(call)
        try:
            yield
        finally:
            self.leave(call)

    def count(self, call: Call | None) -> None:
        """Give a collective its number in its group."""
        if call is not None:
            call.number = self.last[call.group] = self.last.get(call.group, 0) + 1

    def enter(self, call: Call | None) -> None:
        """Watch a call from now on."""
        if call is not None:
            call.began = time.monotonic()
            self.calls[id(call)] = call

    def leave(self, call: Call | None) -> None:
        """Watch a call no more, or note the end of a message that nobody waited for."""
        self.calls.pop(id(call), None)
        activity.note_end()

    def end(self) -> None:
        """Notify ranks that wait for this one, now or later, that it will not come: its script has ended."""
        with self.lock:
            self.ended = True
            for (rank, group), (number, _name) in list(self.heard.items()):
                self._answer(rank, group, number)

    def say_goodbye(self, seconds: float, at_once: bool) -> None:
        """Notify all ranks that this one ends without MPI_Finalize, and wait so long at most until that is sent.

        at_once: whether it does not wait until all others have said the same.
        """
        end = time.monotonic() + seconds
        with self.lock:
            if self.comm is None or self.stopped:
                return
            self.ended = True
            for rank in range(self.comm.size):
                if rank != self.rank and rank not in self.gone:
                    self._send(rank, LEFT, int(at_once), self.last)
            while not all(request.Test() for _message, request in self.sent) and time.monotonic() < end:
                time.sleep(0.001)

    def close(self) -> None:
        """Call MPI no more."""
        with self.lock:
            self.stopped = True

    def _run(self) -> None:
        while not self.stopped:
            time.sleep(LOOK)
            for call in list(self.calls.values()):
                waited = time.monotonic() - call.began
                if waited > NOTICE and not call.told:
                    call.told = True
                    self._tell(call)
                self._listen()
                if id(call) in self.calls and (waited > call.timeout or self._is_left(call)):
                    (call.give_up or self._give_up)(self.report(call))
            self._listen()

    def _tell(self, call: Call) -> None:
        with self.lock:
            if self.comm is None or self.stopped:
                return
            for rank in call.ranks:
                if rank != self.rank:
                    self._send(rank, call.group, call.number, call.text())
            self.sent = [(message, request) for message, request in self.sent if not request.Test()]

    def _send(self, rank: int, group: str, number: int, name: Any) -> None:
        message = pickle.dumps((group, number, name))
        self.sent.append((message, self.comm.Isend([message, MPI.BYTE], rank)))

    def _answer(self, rank: int, group: str, number: int) -> None:
        """Notify a rank that waits for a collective of a group, or for a message, that this one has ended before it."""
        if self.last.get(group, -1) < number or (number == MESSAGE and not self.is_sending(rank)):
            self._send(rank, group, self.last.get(group, -1), ENDED)

    def _listen(self) -> None:
        with self.lock:
            status = MPI.Status()
            while self.comm is not None and not self.stopped and self.comm.Iprobe(MPI.ANY_SOURCE, 0, status):
                message = bytearray(status.Get_count(MPI.BYTE))
                self.comm.Recv([message, MPI.BYTE], status.Get_source(), 0)
                group, number, name = pickle.loads(message)
                if group == LEFT:
                    self.left[status.Get_source()] = name
                    if number:
                        self.gone.add(status.Get_source())
                    continue
                self.heard[status.Get_source(), group] = number, name
                if self.ended:
                    self._answer(status.Get_source(), group, number)

    def _has_left(self, rank: int, call: Call) -> bool:
        """Return whether a rank that this call needs has ended."""
        if rank in self.left:
            return call.number == MESSAGE or self.left[rank].get(call.group, -1) < call.number
        return self.heard.get((rank, call.group), (0, ""))[1] == ENDED

    def _is_left(self, call: Call) -> bool:
        """Return whether this call will not end: a collective needs all ranks, and a message from any rank one."""
        others = [rank for rank in call.ranks if rank != self.rank]
        wanted = all if call.number == MESSAGE else any
        return bool(others) and wanted(self._has_left(rank, call) for rank in others)

    def _give_up(self, report: str) -> None:
        text = f"DistBackendError: {report}\n"
        observer = getattr(sys.modules.get("amx_cluster.observer"), "observer", None)
        with contextlib.suppress(Exception):
            if observer:
                observer.failures.show(text)
            else:
                sys.stderr.write(f"\n{text}")
                sys.stderr.flush()
        os._exit(EXIT_CODE)

    def report(self, call: Call) -> str:
        """Return what a call that took too long waits for."""
        is_message, missing, doing = call.number == MESSAGE, "called", "calling"
        if is_message:
            missing, doing = ("received", "receiving") if call.name.startswith("send") else ("sent", "sending")
        absent, ended, elsewhere = [], [], []
        for rank in call.ranks:
            number, name = self.heard.get((rank, call.group), (-1, ""))
            if rank == self.rank or (not is_message and (number, name) == (call.number, call.text())):
                continue
            if self._has_left(rank, call):
                ended.append(rank)
            elif is_message and name:
                elsewhere.append(f"rank {rank} has not {missing} it, and waits for its own {name}")
            elif number < 0:
                absent.append(rank)
            elif number < call.number:
                elsewhere.append(f"rank {rank} has not called it, and was last in {name}, number {number}")
            else:
                elsewhere.append(f"rank {rank} is at {name}, number {number}")
        have = "has" if len(absent) == 1 else "have"
        reasons = [f"{of_ranks(absent)} {have} not {missing} it"] if absent else []
        reasons += [f"{of_ranks(ended)} ended without {doing} it"] if ended else []
        reasons += elsewhere
        why = "; ".join(reasons) or "all ranks have called it: the network between them does not carry it"
        who = f"rank {self.rank} on {os.environ.get('AMX_CLUSTER_HOST') or MPI.Get_processor_name()}"
        waited = time.monotonic() - call.began
        after = f"{waited:.3g} s" if waited < call.timeout else f"its timeout of {call.timeout:.3g} s"
        return f"{who}: {call.label()}, has not ended within {after}: {why}"
