"""A clock that tests set, for what would take its time from that of the host."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._clock import Clock


class SetClock(Clock):
    """Shows the same time until a test sets `now`, or something sleeps by it."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds
