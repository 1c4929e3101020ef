# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are taken back: when, whether the ranks have saved meanwhile, and when a job has to go on without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

NOTICE = 120.0  # seconds from a notice to the end, at most
LAST = 20.0  # seconds before its end in which a host is not counted on any more


class Departures:
    """The hosts of one attempt that leave, as their ranks have told.

    at: {host: when, "12:03:10 UTC", or as the notice has it}. instances: {host: what its cloud calls it}. problems:
    {host: why its notices are not seen}.
    """

    def __init__(self, world_size: int) -> None:
        self.at: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self._world_size = world_size
        self._ends: dict[str, float] = {}
        self._saved: dict[int, int] = {}

    def take(self, beat: Mapping[str, Any], now: float) -> None:
        """Record what a heartbeat tells of them. now: seconds of a clock that only grows."""
        host, notice, problem, saved = (beat.get(name) for name in ("host", "leaves", "unnoticed", "saved"))
        if isinstance(saved, int):
            self._saved[beat["rank"]] = saved
        if problem:
            self.problems[str(host)] = str(problem)
        if isinstance(notice, dict) and host not in self.at:
            left, self.at[str(host)] = read(str(notice.get("time")), beat.get("time"))
            self._ends[str(host)] = now + left
            self.instances[str(host)] = str(notice.get("instance", ""))

    def saved(self) -> int | None:
        """Return the step of the checkpoint that all ranks have saved since, None while they have not."""
        steps = set(self._saved.values())
        return steps.pop() if len(self._saved) == self._world_size and len(steps) == 1 else None

    def are_due(self, now: float) -> bool:
        """Return whether the attempt ends now: all have saved, or a host may be gone at any moment."""
        return bool(self.at) and (self.saved() is not None or now > min(self._ends.values()) - LAST)

    def reason(self) -> str:
        """Return why the attempt ends."""
        saved = self.saved()
        return f"{hosts_leaving(self.at)}; " + (
            f"all ranks have saved checkpoint-{saved}" if saved is not None else "no checkpoint was saved in time"
        )


def read(written: str, sent: Any) -> tuple[float, str]:
    """Return how many seconds are left of those that a notice gives, and when they end, for a person.

    written: 2026-11-25T12:03:10Z. sent: when the host sent it, in seconds since 1970 by its own clock.
    """
    try:
        end = datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        left = end.timestamp() - float(sent)
    except (ValueError, TypeError):
        return NOTICE, written
    return min(max(left, 0.0), NOTICE), f"{end:%H:%M:%S} UTC"


def hosts_leaving(at: Mapping[str, str]) -> str:
    """Return which hosts leave, and when."""
    return ", ".join(f"{host} leaves at {when}" for host, when in at.items())


def cannot_go_on(at: Mapping[str, str], staying: Iterable[str], least: int, head: str, replace: bool) -> str:
    """Return why a job ends when hosts leave, and what to do; an empty string where it goes on.

    at: as Departures has it. staying: the other hosts that answer. least: how many it needs. head: the host of its
    supervisor. replace: whether it is to have a replacement.
    """
    again = "replace it and continue the job with playbooks/cloud_train.yml"
    if head in at:
        return f"{hosts_leaving(at)}, where the job's supervisor and results are: {again}"
    if replace:
        return f"{hosts_leaving(at)}: {again} (replace: true)"
    if len(list(staying)) < least:
        return f"{hosts_leaving(at)} and the job needs {least} host(s): {again}, or let it go on with fewer (min_hosts)"
    return ""
