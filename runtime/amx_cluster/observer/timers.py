"""The time of a rank's main thread, divided. docs/where_the_time_goes.md.

It is divided without gaps: at every moment the main thread is in one of PARTS, so that their sum is the time of the
steps.
- A step lasts from the end of one step of the first optimizer that stepped to the end of its next one. Micro-batches
  of gradient accumulation are no steps of an optimizer.
- communication: the main thread is in a collective of torch.distributed, or waits for one. DistributedDataParallel
  reduces gradients while the backward pass goes on; only from the last gradient on does the pass wait for it.
- input: the thread is in the DataLoader's __next__.
- other: from the end of a step to the next batch, where a DataLoader delivers batches.
- compute: all else.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PARTS, SHARES

COMPUTE, COMMUNICATION, INPUT, OTHER = range(len(PARTS))
# Times of steps that are kept for the median; of more than these every second one is dropped.
KEPT = 4096
# Blocks of consecutive steps at most whose times of computing are kept apart; of more, two become one.
BLOCKS = 20


class Timers:
    """The time of the main thread of this process, divided, and summed up over the steps after the warm-up."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.pid = os.getpid()
        self.thread = threading.main_thread().ident
        self.warmup, self.split = 0, True
        # Steps after the warm-up that do not count either, because they are profiled; seconds in collectives so far.
        self.profiled = 0
        self.communicated = 0.0
        # The part that the time since `mark` belongs to, and those around it.
        self.part = COMPUTE
        self.around: list[int] = []
        self.mark = self.clock()
        self.parts = [0.0] * len(PARTS)
        self.calls = self.bytes = 0
        # Steps of the leading optimizer so far, and when the last one ended.
        self.leading: Any = None
        self.steps = 0
        self.ended = self.mark
        # Whether a DataLoader has delivered a batch since then.
        self.delivered = False
        # Of the steps that count: how many, their seconds (at most KEPT of them, every `stride`-th), and sums.
        self.counted, self.stride = 0, 1
        self.seconds: list[float] = []
        self.total = 0.0
        self.sums = [0.0] * len(PARTS)
        self.sum_calls = self.sum_bytes = 0
        # Seconds of computing in each block of so many steps; the last one may have fewer.
        self.blocks: list[float] = []
        self.block_steps = 1
        # Whether all collectives were counted that had bytes.
        self.complete = True

    def is_here(self) -> bool:
        """Return whether this is the thread whose time is divided; not one of a forked child's."""
        return threading.get_ident() == self.thread and os.getpid() == self.pid

    def spend(self) -> float:
        """Give the time since the last mark to the current part, and return the time of now."""
        now = self.clock()
        self.parts[self.part] += now - self.mark
        self.mark = now
        return now

    def enter(self, part: int) -> None:
        """Begin with a part, within the current one."""
        self.spend()
        self.around.append(self.part)
        self.part = part

    def leave(self) -> None:
        """End what `enter` began."""
        self.spend()
        if self.around:
            self.part = self.around.pop()

    def delivering(self) -> None:
        """Note that a batch was delivered: what follows it is computing, and what follows the step is not."""
        self.delivered = True
        if not self.around:
            self.part = COMPUTE

    def step(self, optimizer: Any) -> bool:
        """Note that an optimizer has made a step; return whether it is one that leads."""
        if not self.is_here():
            return False
        leading = self.leading() if self.leading is not None else None
        if leading is None:
            self.leading = weakref.ref(optimizer)
            leading = optimizer
        if leading is not optimizer:
            return False
        now = self.spend()
        self.steps += 1
        if self.steps > max(1, self.warmup) + self.profiled:  # the first one began with the script
            self.count(now - self.ended)
        self.communicated += self.parts[COMMUNICATION]
        self.ended = now
        self.parts = [0.0] * len(PARTS)
        self.calls = self.bytes = 0
        if not self.around:
            self.part = OTHER if self.delivered else COMPUTE
        self.delivered = False
        return True

    def restart(self) -> None:
        """Restart the time of the step."""
        self.ended = self.mark = self.clock()

    def count(self, seconds: float) -> None:
        """Add a step that lasted so long."""
        if self.counted % self.stride == 0:
            if len(self.seconds) >= KEPT:
                self.seconds, self.stride = self.seconds[::2], 2 * self.stride
            if self.counted % self.stride == 0:
                self.seconds.append(seconds)
        if self.counted % self.block_steps == 0:
            if len(self.blocks) == BLOCKS:
                self.blocks = [first + other for first, other in zip(self.blocks[::2], self.blocks[1::2])]
                self.block_steps *= 2
            self.blocks.append(0.0)
        self.blocks[-1] += self.parts[COMPUTE]
        self.counted += 1
        self.total += seconds
        self.sums = [summed + part for summed, part in zip(self.sums, self.parts)]
        self.sum_calls += self.calls
        self.sum_bytes += self.bytes

    def summary(self) -> dict[str, Any]:
        """Return the means and percentiles of the steps so far; module_utils/_jobs/measured.py merges the ranks'."""
        steps, seconds = self.counted, sorted(self.seconds)
        figures: dict[str, Any] = {"warmup_steps": self.warmup, "made": self.steps, "steps": steps}
        if not steps or not seconds:
            return figures
        figures["step_seconds"] = {
            **{name: seconds[int(share * (len(seconds) - 1) + 0.5)] for name, share in SHARES.items()},
            "mean": self.total / steps,
            "count": steps,
        }
        if self.split:
            figures.update({name: part / steps for name, part in zip(PARTS, self.sums)})
            complete = self.blocks[: steps // self.block_steps]
            figures["compute_blocks"] = [float(f"{block / self.block_steps:.6g}") for block in complete]
            if self.complete and "torch.distributed.distributed_c10d" in sys.modules:
                figures.update(calls=self.sum_calls / steps, bytes=self.sum_bytes / steps)
        return figures
