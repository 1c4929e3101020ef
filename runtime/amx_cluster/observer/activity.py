"""Progress of a rank, and whether it waits for others: docs/watching.md has what counts as what."""

from __future__ import annotations

import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from amx_cluster.observer import places, usage
from amx_cluster.observer.rank import Rank, group
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock


class Activity:
    """Activity of the script, as it reports it itself (`note`, `step`) and as it is seen from outside (`look`)."""

    # The share of one processor that a rank, or what it started, uses at least when it is at work.
    BUSY = 0.05
    # The share of the time in which a thread of theirs could have run, and others had the processor.
    DELAYED = 0.5
    # Bytes a second that it reads and writes at least when it is at that.
    MOVED = 1 << 19

    def __init__(self, rank: Rank, clock: Clock = CLOCK) -> None:
        self.rank, self.clock = rank, clock
        self.main = threading.main_thread().ident
        self.domain = os.sched_getaffinity(0)
        # When the script last made progress.
        self.active = self.clock.monotonic()
        self.stepped = False
        # Steps of the optimizer that made the first one, and what is called then.
        self.steps = 0
        self.leading: Any = None
        self.at_first_step: Callable[[], object] = lambda: None
        # Steps made outside of any group where one was to form.
        self.alone = 0
        self.waiting = False
        # Whether a backward pass has computed all gradients, and only waits until they are reduced.
        self.reducing = False
        self.ended_in_mpi = 0
        self.used: usage.Usage | None = None
        # What `delays` returned at the last look, when there was no other progress.
        self.delayed: dict[int, float] | None = None
        self.looked = self.clock.monotonic()
        self.where: list[tuple[str, str, int]] = []
        # Seconds of the rank and all that it has started, as far as that could be seen.
        self.cpu_seconds = 0.0

    def note(self) -> None:
        """Note that the script has made progress."""
        self.active = self.clock.monotonic()

    def step(self, optimizer: Any = None) -> None:
        """Note that the script makes a step of an optimizer; without one, that a step has ended that was counted."""
        self.note()
        if self.rank.size == 1 or group() is not None or not self.rank.is_watched("group"):
            first, self.stepped = not self.stepped, True
            if optimizer is not None:
                leading = self.leading() if self.leading is not None else None
                if leading is None:
                    leading, self.leading = optimizer, weakref.ref(optimizer)
                self.steps += leading is optimizer
            if first:
                self.at_first_step()
        else:
            self.alone += 1

    def idle(self) -> float:
        """Return the seconds since the last progress."""
        return self.clock.monotonic() - self.active

    def stack(self) -> str:
        """Return Python's stack of the script."""
        frame = sys._current_frames().get(self.main or 0)
        return "".join(traceback.format_stack(frame)[-8:])[-4000:] if frame else ""

    def look(self) -> None:
        """Look at what the rank uses, and where its script is. What cannot be seen is not judged.

        That may be because the script has too many open files.
        """
        try:
            if self._progresses():
                self.note()
        except Exception:
            self.used = None
            self.note()

    def _progresses(self) -> bool:
        frame = sys._current_frames().get(self.main or 0)
        where = places.places(frame)
        del frame  # it holds all that the script has
        same, self.where = where == self.where, where
        self.waiting = places.is_waiting(where)
        now = self.clock.monotonic()
        elapsed, self.looked = now - self.looked, now
        used = usage.Usage(self.domain, places.threads_in_mpi(self.main))
        before, self.used = self.used, used
        if before is None:
            self.cpu_seconds = max(self.cpu_seconds, used.own + used.others)
            return True
        # Of an orphan, which no one counts any more, the sum is less than it was.
        own, others = max(0.0, used.own - before.own), max(0.0, used.others - before.others)
        self.cpu_seconds += own + others
        # Where polling in the backend mpi is just now says nothing; whether anything has ended does.
        spins = places.is_in_mpi(where) or (same and (places.is_in_collective(where) or self.reducing))
        ended, self.ended_in_mpi = self.ended_in_mpi, places.ended_in_mpi()
        if (
            self.ended_in_mpi != ended
            or others > self.BUSY * elapsed
            or used.moved - before.moved > self.MOVED * elapsed
            or (own > self.BUSY * elapsed and not spins)
        ):
            self.delayed = None
            return True
        return self.is_delayed(spins, elapsed)

    def is_delayed(self, spins: bool, elapsed: float) -> bool:
        """Return whether a thread could have run since the last look, `elapsed` seconds ago, and had no processor.

        Only asked where nothing else tells of progress: it takes reading a file for each thread of all processes.
        """
        own = os.getpid()
        seen = usage.delays(own, own)  # also while it spins: it may not the next time, when its delay is of two looks
        for pid in usage.family(own):
            seen.update(usage.delays(pid))
        before, self.delayed = self.delayed, seen
        compared = {thread: delay for thread, delay in seen.items() if thread != own or not spins}
        return before is not None and usage.longest(before, compared) > self.DELAYED * elapsed
