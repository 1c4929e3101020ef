# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use of each host by a job's ranks over time, from their heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINTS = 600  # of each host at most; then the interval is doubled
INTERVAL = 2  # seconds of a point at the beginning: that of the heartbeats
DIGITS = 3


class Host:
    """The points of one host: what was used in each interval since the job's start."""

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus
        self.cpu_seconds: list[float] = []
        self.memory: list[float] = []
        self.network: list[float] = []
        # Of the interface, which all ranks of the host count: its bytes, and when they were last seen.
        self.counter: tuple[float, float] | None = None
        # {rank: (pid, seconds at which it was last heard, cpu_seconds, rss_bytes)}
        self.ranks: dict[int, tuple[int, float, float, float]] = {}

    def reach(self, points: int) -> None:
        """Extend the values to so many points at least."""
        for values in (self.cpu_seconds, self.memory, self.network):
            values += [0.0] * (points - len(values))

    def halve(self) -> None:
        """Make one point of every two."""
        self.cpu_seconds = [sum(self.cpu_seconds[at : at + 2]) for at in range(0, len(self.cpu_seconds), 2)]
        self.network = [sum(self.network[at : at + 2]) for at in range(0, len(self.network), 2)]
        self.memory = [max(self.memory[at : at + 2]) for at in range(0, len(self.memory), 2)]


class Utilization:
    """All hosts of a job, from its first attempt to its last. Times are seconds since its start, as the supervisor
    received the heartbeats: clocks of hosts differ."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.interval: float = INTERVAL
        self.end = 0.0
        self.hosts = {host["host"]: Host(_cpus(host)) for host in plan["hosts"]}

    def add(self, plan: Mapping[str, Any]) -> None:
        """Take in the hosts of another plan that are not known."""
        for host in plan["hosts"]:
            if host["host"] and host["host"] not in self.hosts:
                self.hosts[host["host"]] = Host(_cpus(host))

    def take(self, beat: Mapping[str, Any], at: float) -> None:
        """Add a heartbeat received at `at`: rank, host, pid, cpu_seconds, rss_bytes, network_bytes."""
        host = self.hosts.get(beat.get("host", ""))
        numbers = [beat.get(name) for name in ("cpu_seconds", "rss_bytes", "network_bytes")]
        if host is None or not all(isinstance(number, (int, float)) for number in numbers):
            return
        cpu, memory, network = (float(number) for number in numbers if number is not None)
        self.end = max(self.end, at)
        while self.end >= POINTS * self.interval:
            self.interval *= 2
            for each in self.hosts.values():
                each.halve()
        host.reach(int(at // self.interval) + 1)
        rank, pid = beat["rank"], int(beat.get("pid", 0))
        before = host.ranks.get(rank)
        if before is None or before[0] != pid:
            # A process that was not there before: what it has used already it used just now.
            before = (pid, max(at - INTERVAL, before[1] if before else 0.0, 0.0), 0.0, 0.0)
        self._spread(host.cpu_seconds, before[1], at, cpu - before[2])
        host.ranks[rank] = (pid, at, max(cpu, before[2]), memory)
        if host.counter is not None:
            self._spread(host.network, host.counter[1], at, network - host.counter[0])
        host.counter = (network, at)
        recent = [entry[3] for entry in host.ranks.values() if at - entry[1] < 5 * INTERVAL]
        host.memory[int(at // self.interval)] = sum(recent)

    def _spread(self, points: list[float], begin: float, end: float, amount: float) -> None:
        """Divide an amount among the points of the time in which it arose."""
        if amount <= 0:
            return  # a counter that began anew
        if end <= begin:
            points[int(end // self.interval)] += amount
            return
        for place in range(int(begin // self.interval), int(end // self.interval) + 1):
            share = min(end, (place + 1) * self.interval) - max(begin, place * self.interval)
            points[place] += amount * max(0.0, share) / (end - begin)

    def to_json(self) -> dict[str, Any]:
        """Return the content of utilization.json: for each host the beginning of each interval and what was used.

        busy_cpus: CPUs that were busy on average. memory_bytes: resident memory of its ranks.
        """
        return {
            "version": 1,
            "interval": self.interval,
            "hosts": {name: self._points(host) for name, host in self.hosts.items()},
        }

    def _points(self, host: Host) -> dict[str, Any]:
        places = range(len(host.cpu_seconds))
        # The last one is not over yet.
        lasted = [max(1e-3, min(self.interval, self.end - place * self.interval)) for place in places]
        lasted = [seconds if seconds > 0.25 * self.interval else self.interval for seconds in lasted]
        return {
            "cpus": host.cpus,
            "time": [place * self.interval for place in places],
            "busy_cpus": [round(used / seconds, DIGITS) for used, seconds in zip(host.cpu_seconds, lasted)],
            "memory_bytes": [int(used) for used in host.memory],
            "network_bytes_per_second": [int(used / seconds) for used, seconds in zip(host.network, lasted)],
        }


def _cpus(host: Mapping[str, Any]) -> int:
    """Return how many CPUs the ranks of a plan's host have."""
    return len({cpu for rank in host["ranks"] for name in ("compute_cpus", "comm_cpus") for cpu in rank.get(name, [])})
