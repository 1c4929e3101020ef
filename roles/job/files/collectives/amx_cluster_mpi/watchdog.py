"""What is going on in MPI, and for how long: MPI itself waits for ever, and nothing can call it back.

A thread looks every second. A collective that waits for longer than NOTICE tells the other ranks of its group where it
is; so that a rank that gives up can say which of them have not come. It ends its process then, as PyTorch's watchdog
of NCCL does, and the launcher the others.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
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


@dataclass
class Call:
    """A collective that this process is in: ranks of its group, its number there, its name and on what."""

    ranks: Sequence[int]
    group: str
    number: int
    name: str
    what: str
    timeout: float
    began: float = field(default_factory=time.monotonic)
    told: bool = False

    def label(self) -> str:
        """Return which one it is, in words."""
        return f"{self.name}{self.what}, number {self.number} in the group of {of_ranks(self.ranks)}"


def of_ranks(ranks: Sequence[int]) -> str:
    """Return ranks in words, the first of them where there are many."""
    some = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
    return f"rank {some}" if len(ranks) == 1 else f"ranks {some}"


class Watchdog:
    """The calls of this process, and what others have told of theirs."""

    def __init__(self) -> None:
        self.comm: Any = None
        self.calls: dict[int, Call] = {}
        # The last call that each rank has told of in each group: {(rank, group): (number, name and on what)}.
        self.heard: dict[tuple[int, str], tuple[int, str]] = {}
        # The last call of this process in each group.
        self.last: dict[str, int] = {}
        self.ended = False
        self.sent: list[Any] = []
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.stopped = False
        threading.Thread(target=self._run, name="mpi-watchdog", daemon=True).start()

    @contextlib.contextmanager
    def watching(self, call: Call) -> Iterator[None]:
        """Watch a call as long as it lasts."""
        self.calls[id(call)] = call
        self.last[call.group] = call.number
        try:
            yield
        finally:
            self.calls.pop(id(call), None)
            activity.note_end()

    def end(self) -> None:
        """Tell those that wait for this rank, now or later, that it will not come: its script has ended."""
        with self.lock:
            self.ended = True
            for (rank, group), (number, _name) in list(self.heard.items()):
                self._answer(rank, group, number)

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
                if waited > call.timeout or self._is_left(call):
                    self._give_up(call)
            self._listen()

    def _tell(self, call: Call) -> None:
        with self.lock:
            if self.comm is None or self.stopped:
                return
            for rank in call.ranks:
                if rank != self.comm.rank:
                    self._send(rank, call.group, call.number, call.name + call.what)
            self.sent = [(content, request) for content, request in self.sent if not request.Test()]

    def _send(self, rank: int, group: str, number: int, name: str) -> None:
        content = pickle.dumps((group, number, name))
        self.sent.append((content, self.comm.Isend([content, MPI.BYTE], rank)))

    def _answer(self, rank: int, group: str, number: int) -> None:
        """Tell a rank that waits in a collective of a group that this one has ended before it."""
        if self.last.get(group, -1) < number:
            self._send(rank, group, self.last.get(group, -1), ENDED)

    def _listen(self) -> None:
        with self.lock:
            status = MPI.Status()
            while self.comm is not None and not self.stopped and self.comm.Iprobe(MPI.ANY_SOURCE, 0, status):
                content = bytearray(status.Get_count(MPI.BYTE))
                self.comm.Recv([content, MPI.BYTE], status.Get_source(), 0)
                group, number, name = pickle.loads(content)
                self.heard[status.Get_source(), group] = number, name
                if self.ended:
                    self._answer(status.Get_source(), group, number)

    def _is_left(self, call: Call) -> bool:
        """Tell whether a rank that this call needs has ended."""
        return any(self.heard.get((rank, call.group), (0, ""))[1] == ENDED for rank in call.ranks)

    def _give_up(self, call: Call) -> None:
        text = f"DistBackendError: {self.report(call)}\n"
        observer = sys.modules.get("_amx_cluster_observer")
        with contextlib.suppress(Exception):
            if observer:
                observer.print_failure(text)
            else:
                sys.stderr.write(f"\n{text}")
                sys.stderr.flush()
        os._exit(EXIT_CODE)

    def report(self, call: Call) -> str:
        """Return what a call that took too long waits for."""
        own = self.comm.rank if self.comm is not None else -1
        absent, ended, elsewhere = [], [], []
        for rank in call.ranks:
            number, name = self.heard.get((rank, call.group), (-1, ""))
            if rank == own or (number, name) == (call.number, call.name + call.what):
                continue
            if name == ENDED:
                ended.append(rank)
            elif number < 0:
                absent.append(rank)
            elif number < call.number:
                elsewhere.append(f"rank {rank} has not called it, and was last in {name}, number {number}")
            else:
                elsewhere.append(f"rank {rank} is at {name}, number {number}")
        reasons = [*([f"{of_ranks(absent)} {'has' if len(absent) == 1 else 'have'} not called it"] if absent else [])]
        reasons += [f"{of_ranks(ended)} ended without calling it"] if ended else []
        reasons += elsewhere
        why = "; ".join(reasons) or "all ranks have called it: the network between them does not carry it"
        who = f"rank {own} on {os.environ.get('AMX_CLUSTER_HOST') or MPI.Get_processor_name()}"
        after = min(call.timeout, time.monotonic() - call.began)
        return f"{who}: {call.label()}, has not ended within {after:.3g} s: {why}"
