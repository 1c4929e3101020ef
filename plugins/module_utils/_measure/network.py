# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network as it was measured: which hosts are measured with each other when, and what is slow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._measure.repeated import LEVEL, student_t

Pair = tuple[int, int]

# Of the bandwidth of the median host: a pair or host below this part is slow, unless its meetings lie so far apart that
# one in such a network would be by chance (at LEVEL, over all hosts and pairs).
SLOW = 0.6
# Of the nominal speed of the slower link: who does not reach this part is below it. TCP reaches 0.94 of Ethernet.
NOMINAL = 0.6
# Times the latency of the median host, and so many microseconds more: a host above both is slow.
LATE, LATE_US = 4.0, 200.0
# One TCP connection rarely fills a link of more Mbit/s.
ONE_CONNECTION = 20000


def tournament(count: int) -> list[list[Pair]]:
    """Return rounds of pairs of 0 .. count - 1: every pair once, and each number at most once in a round.

    The circle method: one stays, the others go round. count - 1 rounds; where count is odd one more, as one sits out.
    """
    if count < 2:
        return []
    seats = [*range(count)] if count % 2 == 0 else [*range(count), -1]
    rounds = []
    for _round in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]))
        rounds.append([(min(pair), max(pair)) for pair in pairs if min(pair) >= 0])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


def findings(hosts: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what is wrong with a network, the most important first: [{kind, host, pair, text}].

    hosts: {host, interface, link_mbit}, the last None where it is unknown. pairs: {hosts, latency_us,
    bandwidth_mbyte_s, meetings_mbyte_s, state, reason}, the bandwidth the best of its meetings. A host is slow when all
    its pairs are and other hosts have pairs that are not; its pairs are not named then. Two hosts have no median: they
    are only compared with their links.
    """
    judged = _Judge(hosts, pairs)
    return [*judged.failed(), *judged.slow(), *judged.late(), *judged.below_nominal()]


def host_figures(name: str, pairs: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Return a host's best latency (µs) and bandwidth (MB/s) with another host; None where nothing was measured."""
    own = [pair for pair in pairs if name in pair["hosts"] and pair["state"] == "measured"]
    return (
        min((pair["latency_us"] for pair in own), default=None),
        max((pair["bandwidth_mbyte_s"] for pair in own), default=None),
    )


def speed(mbit: float) -> str:
    """Return a link's speed: 1000 Mbit/s (125 MB/s)."""
    name = f"{mbit / 1000:g} Gbit/s" if mbit >= 10000 else f"{mbit:g} Mbit/s"
    return f"{name} ({mbit / 8:g} MB/s)"


def noise(pairs: Sequence[Mapping[str, Any]]) -> tuple[float, int] | None:
    """Return the standard deviation of the logarithms of a pair's meetings, and its degrees of freedom, over all pairs.

    None where no pair has met twice.
    """
    met = [[math.log(value) for value in pair["meetings_mbyte_s"] if value > 0] for pair in pairs]
    freedom = sum(len(each) - 1 for each in met if each)
    squares = sum((value - statistics.fmean(each)) ** 2 for each in met for value in each)
    return (math.sqrt(squares / freedom), freedom) if freedom else None


class _Judge:
    def __init__(self, hosts: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> None:
        self.hosts = {host["host"]: host for host in hosts}
        self.pairs = pairs
        self.measured = [pair for pair in pairs if pair["state"] == "measured"]
        figures = {name: host_figures(name, pairs) for name in self.hosts}
        self.latency = {name: medians[0] for name, medians in figures.items() if medians[0] is not None}
        self.bandwidth = {name: medians[1] for name, medians in figures.items() if medians[1] is not None}
        self.compares = len(self.bandwidth) > 2
        # What slow() and late() have named: hosts, and pairs as tuples of their names.
        self.named: set[Any] = set()

    def failed(self) -> list[dict[str, Any]]:
        """Pairs that could not be measured; the host where all of its pairs, and of no other host all, have failed."""
        bad = [pair for pair in self.pairs if pair["state"] != "measured"]
        alone = [name for name in self.hosts if len(self.hosts) > 2 and name not in self.bandwidth]
        alone = alone if len(alone) < len(self.hosts) else []
        problems = [
            _finding(
                "failed",
                host=name,
                text=f"{name} could not be measured with any other host: "
                f"{next(pair['reason'] for pair in bad if name in pair['hosts'])}. Check it with playbooks/doctor.yml.",
            )
            for name in alone
        ]
        for pair in bad:
            if not set(pair["hosts"]) & set(alone):
                text = f"{_pair(pair)} could not be measured: {pair['reason']}. Check them with playbooks/doctor.yml."
                problems.append(_finding("failed", pair=pair["hosts"], text=text))
        return problems

    def slow(self) -> list[dict[str, Any]]:
        """Hosts, and pairs of other hosts, whose bandwidth is far below that of the median host."""
        noise_level = noise(self.measured)
        if not self.compares or noise_level is None:
            return []
        spread, freedom = noise_level
        median = statistics.median(self.bandwidth.values())
        chance = student_t(1 - LEVEL / 2 / (len(self.bandwidth) + len(self.measured)), freedom) * spread
        limit = median * min(SLOW, math.exp(-chance))
        problems = []
        for name, best in self.bandwidth.items():
            if best < limit:
                self.named.add(name)
                text = (
                    f"{name} is slow: {best:.1f} MB/s at best with another host, where the median host reaches "
                    f"{median:.1f} MB/s; {self._link(name)}. {self._look(name)}"
                )
                problems.append(_finding("slow_host", host=name, text=text))
        # A host has its best of many meetings, which the best of a pair is not to be compared with.
        many = max(len(pair["meetings_mbyte_s"]) for pair in self.measured) * (len(self.bandwidth) - 1)
        limit *= math.exp(-spread * statistics.NormalDist().inv_cdf(many / (many + 1)))
        for pair in self.measured:
            if pair["bandwidth_mbyte_s"] < limit and not set(pair["hosts"]) & self.named:
                self.named.add(tuple(pair["hosts"]))
                text = (
                    f"{_pair(pair)} are slow with each other: {pair['bandwidth_mbyte_s']:.1f} MB/s, where the median "
                    f"host reaches {median:.1f} MB/s and each of them is fast with other hosts. Look at what lies "
                    f"between them: switches, uplinks, and the route of {' and '.join(pair['hosts'])} to each other "
                    f"(ip route get {self._address(pair['hosts'][1])} on {pair['hosts'][0]})."
                )
                problems.append(_finding("slow_pair", pair=pair["hosts"], text=text))
        return problems

    def late(self) -> list[dict[str, Any]]:
        """Hosts whose latency is far above that of the median host; ranks that share a core are a late pair, too."""
        if not self.compares:
            return []
        median = statistics.median(self.latency.values())
        limit = max(LATE * median, median + LATE_US)
        late = {name for name, best in self.latency.items() if best > limit}
        problems = [
            _finding(
                "slow_host",
                host=name,
                text=f"{name} answers late: {self.latency[name]:.0f} µs at best with another host, where the median "
                f"host has {median:.0f} µs. {self._look(name)}",
            )
            for name in sorted(late - self.named)
        ]
        self.named |= late
        return problems

    def below_nominal(self) -> list[dict[str, Any]]:
        """Hosts that are far from what their links are made for; one finding where that is all of them."""
        below: dict[str, tuple[float, float]] = {}
        for name, best in self.bandwidth.items():
            nominal = self._nominal(name)
            if nominal and name not in self.named and best < NOMINAL * nominal / 8:
                below[name] = best, nominal
        if not below:
            return []
        best, nominal = max(below.values())
        if len(below) == len(self.bandwidth):
            names = list(below)
            text = (
                f"{'All hosts' if len(names) > 2 else ' and '.join(names)} are below the speed of their links: "
                f"{best:.1f} MB/s at best of {speed(nominal)}. {self._why(nominal, names[0])}"
            )
            return [_finding("below_nominal", pair=names if len(names) == 2 else None, text=text)]
        return [
            _finding(
                "below_nominal",
                host=name,
                text=f"{name} is below the speed of its link: {best:.1f} MB/s at best of {speed(nominal)}. "
                f"{self._why(nominal, name)}",
            )
            for name, (best, nominal) in below.items()
        ]

    def _nominal(self, name: str) -> float | None:
        """The speed of the slower link of the host's best pair, in Mbit/s; None where one is unknown."""
        own = [pair for pair in self.measured if name in pair["hosts"]]
        links = [
            self.hosts[host].get("link_mbit")
            for host in max(own, key=lambda pair: pair["bandwidth_mbyte_s"])["hosts"]
            if host in self.hosts
        ]
        known = [float(link) for link in links if link]
        return min(known) if len(known) == 2 else None

    def _why(self, nominal: float, name: str) -> str:
        if nominal > ONE_CONNECTION:
            return (
                "One TCP connection does not fill such a link; a fabric does (docs/fabrics.md), or more ranks per host."
            )
        return self._look(name)

    def _link(self, name: str) -> str:
        host = self.hosts[name]
        if not host.get("link_mbit"):
            return f"the nominal speed of its link {host.get('interface') or ''} is unknown".replace("  ", " ")
        others = [host["link_mbit"] for host in self.hosts.values() if host.get("link_mbit")]
        usual = statistics.median_high(others)
        text = f"its link {host['interface']} is nominally {speed(host['link_mbit'])}"
        return text + (f", those of others {speed(usual)}" if usual > host["link_mbit"] else "")

    def _look(self, name: str) -> str:
        interface = self.hosts[name].get("interface") or "INTERFACE"
        return (
            f"On {name}, look at ethtool {interface} (speed, duplex), ip -s link show {interface} (errors, drops) and "
            f"tc qdisc show dev {interface} (limits), then at its cable and its switch port."
        )

    def _address(self, name: str) -> str:
        return str(self.hosts[name].get("address") or name)


def _pair(pair: Mapping[str, Any]) -> str:
    return " and ".join(pair["hosts"])


def _finding(kind: str, text: str, host: str | None = None, pair: Sequence[str] | None = None) -> dict[str, Any]:
    return {"kind": kind, "host": host, "pair": list(pair) if pair else None, "text": text}
