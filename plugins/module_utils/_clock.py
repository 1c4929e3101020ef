# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time, and waiting, for all that supervises jobs and observes ranks: tests give these a clock that they set."""

from __future__ import annotations

import time


class Clock:
    """The clock of this host."""

    def monotonic(self) -> float:
        """Return seconds that only grow, whatever the time of day is set to."""
        return time.monotonic()

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        time.sleep(seconds)


CLOCK = Clock()
"""What is used where no other clock is given."""
